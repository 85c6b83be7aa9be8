"""What the Runner costs, measured beside what it is compared with, in one run on one machine.

``python -m benchmarks`` runs every part; each part is a module with ``run(sizes) -> tuple[Figure, ...]``. Not shipped and no
test: nothing here asserts a time. Budgets and figures are printed side by side; docs/performance.md keeps them.
"""
