"""Do the expressions of a workflow parse, and does what they name exist where they are evaluated? Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from runner.contract.activation import DecisionAction, Executor, Step, Workflow
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Finding
from runner.interpreter.actions import texts
from runner.interpreter.expressions import Reference, Template, TemplateError, strings
from runner.interpreter.topology import Topology, numbered

Resolver = Callable[[Reference], tuple[str, str] | None]
"""A reference that does not resolve: the problem and the fix."""
Inputs = frozenset[str] | None
"""The names of all inputs there can be; None for any."""


def expression_findings(workflow: Workflow, graph: Topology | None, partial: frozenset[int]) -> Iterator[Finding]:
    """Every problem in templates of steps (but ``partial`` ones) and of the output. Without a graph (its needs are cyclic)
    only existence is judged, not order."""
    numbers, inputs = numbered(workflow.steps), declared_inputs(workflow.input_schema)
    sizes = Counter(graph.loop) if graph is not None else Counter()
    for number, step in enumerate(workflow.steps):
        if number in partial:
            continue
        resolver = _Before(number=number, numbers=numbers, graph=graph, sizes=sizes)
        place = f"workflow.steps.{number}"
        for where, text in texts(step.action):
            yield from _template(text, f"{place}.action.{where}", resolver, inputs)
        yield from _conditions(step, place, resolver, inputs)
    if workflow.output is not None:
        for where, text in strings(workflow.output.value, "workflow.output.value"):
            yield from _template(text, where, _Anywhere(numbers), inputs)


def instruction_findings(executor: Executor, place: str, inputs: Inputs = None) -> Iterator[Finding]:
    """Instructions belong to a role, not to a step: they may read the input and the Delivery's id only."""
    yield from _template(executor.instructions, f"{place}.instructions", _no_steps, inputs)


def declared_inputs(schema: FrozenJson) -> Inputs:
    """The names that an input can have; None where its schema leaves that open."""
    if not isinstance(schema, Mapping) or schema.get("additionalProperties") is not False:
        return None
    properties = schema.get("properties", {})
    closed = isinstance(properties, Mapping) and not schema.get("patternProperties")
    return frozenset(properties) if closed and isinstance(properties, Mapping) else None


def _conditions(step: Step, place: str, resolver: Resolver, inputs: Inputs) -> Iterator[Finding]:
    """``when`` is a template of its own; it and a decision's ``on`` must be exactly one expression."""
    alone = [("action.on", step.action.on)] if isinstance(step.action, DecisionAction) else []
    if step.when is not None:
        alone.append(("when", step.when))
        yield from _template(step.when, f"{place}.when", resolver, inputs)
    for where, text in alone:
        try:
            single = Template.parse(text).is_single
        except TemplateError:
            continue
        if not single:
            fix = 'write "{{ ... }}" and nothing around it'
            yield Finding(
                place=f"{place}.{where}",
                problem=f"{where.rpartition('.')[2]!r} must be exactly one expression",
                fix=fix,
            )


def _template(text: str, place: str, resolver: Resolver, inputs: Inputs) -> Iterator[Finding]:
    try:
        references = Template.parse(text).references
    except TemplateError as error:
        yield Finding(place=place, problem=str(error), fix=error.fix)
        return
    for reference in sorted(references, key=str):
        wrong = _no_input(reference, inputs) or resolver(reference)
        if wrong is not None:
            yield Finding(place=place, problem=wrong[0], fix=wrong[1])


def _no_input(reference: Reference, inputs: Inputs) -> tuple[str, str] | None:
    if reference.root != "input" or inputs is None or reference.field is None or reference.field in inputs:
        return None
    names = ", ".join(sorted(inputs)[:5]) or "none"
    return f"there is no input {reference.field!r}", f"declared are: {names}"


def _no_steps(reference: Reference) -> tuple[str, str] | None:
    if reference.root == "steps":
        return "instructions cannot read steps: they are the same for all of them", "put it into the step's prompt"
    return None


@dataclass(frozen=True, slots=True)
class _Anywhere:
    """For the output: every step may be read."""

    numbers: dict[str, int]

    def __call__(self, reference: Reference) -> tuple[str, str] | None:
        if reference.step is None or reference.step in self.numbers:
            return None
        return f"there is no step {reference.step!r}", f"such as: {', '.join(list(self.numbers)[:5])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """For a step: what comes before it, or shares a loop with it and so may have run on an earlier visit."""

    number: int
    numbers: dict[str, int]
    graph: Topology | None
    sizes: Counter[int]

    def __call__(self, reference: Reference) -> tuple[str, str] | None:
        missing = _Anywhere(self.numbers)(reference)
        if missing is not None or reference.step is None or self.graph is None:
            return missing
        other = self.numbers[reference.step]
        if self.graph.precedes(other, self.number) or self._shares_loop(self.graph, other):
            return None
        return (
            f"the step {reference.step!r} is neither before this one nor in a loop with it",
            f"add {reference.step} to needs",
        )

    def _shares_loop(self, graph: Topology, other: int) -> bool:
        if other == self.number:
            return self.sizes[graph.loop[other]] > 1 or (other, other) in graph.back
        return graph.loop[other] == graph.loop[self.number]
