"""What graph does this activation mean? Expressions, closure, and the compilation to a frozen plan. Pure.

Owned invariants
- No I/O, no clock, no chance: equal activations give equal plans and equal plan digests on every machine.
- An activation is interpreted only as a whole: everything in it resolves, or every problem is reported in one pass.
- Every loop of a plan passes a site whose visits are bounded.
- Expressions are bounded in length, nesting and work; data that they read never becomes an expression.
"""

from runner.interpreter.closure import check, check_workflow
from runner.interpreter.expressions import ExpressionError, Reference, Template, TemplateError, evaluate_json
from runner.interpreter.interpret import interpret
from runner.interpreter.prompts import fence_untrusted, render_input, render_prompt, untrusted_sites
from runner.interpreter.schemas import schema_findings, value_findings

__all__ = [
    "ExpressionError",
    "Reference",
    "Template",
    "TemplateError",
    "check",
    "check_workflow",
    "evaluate_json",
    "fence_untrusted",
    "interpret",
    "render_input",
    "render_prompt",
    "schema_findings",
    "untrusted_sites",
    "value_findings",
]
