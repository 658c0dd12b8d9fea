"""What the package knows of a method: one `MethodSpec`, defined in the method's own file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.machine import alone, in_single_precision
from xmr_core.methods.common import Inputs
from xmr_core.methods.method import Method
from xmr_core.methods.options import FORMS, Options, require_options_class

Builder = Callable[[Inputs, Options], Method]


@dataclass(frozen=True)
class MethodSpec:
    """One method of the field, whole: how it is built, and what its paper set.

    Everything that lists methods derives from it: the README's table, labels, presets, choices of the command line,
    comparisons, contract tests and the version in the identity of a run.

    Args:
        id: the name in code, files and tables ('dive'). label: the name that is shown ('DivE').
        summary: what it is, in one sentence without its name. citation: authors, venue, year.
        options: a frozen class of `options.Options`. matched: builds it under the study's common protocol.
        published: builds what produced the paper's numbers, or None where nothing was published.
        published_options: option → value where the published form differs from the defaults of the matched one.
        settings: corpus → training, batches and options as the paper set them for it; empty when it was never published
            on photographs. special: (corpus, options, settings): what was set differently on that corpus ('' for each)
            for these values of options.
        variants: label → options, compared with every other method; the default is the method itself under its label.
        version: raised by one whenever a change of the code changes the method's numbers.
        untrained: parameters that the published form never trains.
    Raises: BadInput for an id that is no short name, no label, a class that is none of
        options, and options in published_options, special or variants that the class refuses. Names and values in
        settings are checked where a preset is made from them.

    >>> from xmr_core.methods import method_spec
    >>> method_spec("dive").make_options("published", {}).d
    1024
    """

    id: str
    label: str
    summary: str
    citation: str
    options: type[Options]
    matched: Builder
    published: Builder | None = None
    published_options: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    special: Sequence[tuple[str, Mapping[str, object], Mapping[str, object]]] = ()
    variants: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    version: int = 1
    untrained: tuple[str, ...] = ()

    def __post_init__(self):
        if not self.id.strip(".") or any(c in self.id for c in " :/"):
            raise BadInput(f"the id of a method is a short name without blank, colon or slash, got {self.id!r}.")
        if not self.label.strip():
            raise BadInput(f"method {self.id} needs a label, the name under which tables show it.")
        require_options_class(self.options)
        if not self.variants:
            object.__setattr__(self, "variants", {self.label: {}})
        for values in self.variants.values():
            self.options.make(self.id, "matched", values)
        if self.published is None:
            if self.published_options or self.settings or self.special:
                raise BadInput(f"method {self.id} has published settings but no published form.")
            return
        for when in ({}, *(when for _, when, _ in self.special)):
            self.options.make(self.id, "published", {**self.published_options, **when})

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that the method has: 'matched', and 'published' where there is a publication."""
        return FORMS if self.published else FORMS[:1]

    def make_options(self, form: str, values: Mapping[str, object]) -> Options:
        """The options of a form with every default filled in.

        Raises: BadInput for a form that the method does not have, an unknown option, or a value out of range.
        """
        if form not in self.forms:
            raise unknown(f"form of {self.label}", form, self.forms)
        preset = self.published_options if form == "published" else {}
        return self.options.make(self.id, form, {**preset, **values})

    def full_options(self, form: str, values: Mapping[str, object]) -> dict[str, object]:
        """The options that a form reads, defaults included: a default that is said and one that is left unsaid are the
        same run. An option that was `added` to the method later is left out while it has its default.
        """
        full = asdict(self.make_options(form, values))
        added = {f.name: f.default for f in fields(self.options) if f.metadata["added"]}
        return {n: full[n] for n in self.options.names(form) if n not in added or full[n] != added[n]}

    def build(self, inputs: Inputs, form: str = "matched", **values) -> Method:
        """The untrained method, in float32. Raises: BadInput as make_options does, what the builder refuses, and where
        the builder returns no Method."""
        options = self.make_options(form, values)
        with alone, in_single_precision():
            built = (self.matched if form == "matched" else self.published)(inputs, options)
        if not isinstance(built, Method):
            raise BadInput(f"the {form} builder of {self.id} must return a Method, got {type(built).__name__}.")
        return built

    def published_settings(self, corpus: str = "", options: Mapping[str, object] | None = None) -> dict[str, object]:
        """Training, batches and options as the paper set them for a corpus. '' takes the first that the paper has.

        Raises: BadInput when the method has no published settings, or none for this corpus.
        """
        corpus = corpus or next(iter(self.settings), "")
        if corpus not in self.settings:
            raise unknown(f"corpus with published settings of {self.id}", corpus, self.settings or ["none"])
        own = {**COMMON_SETTINGS, **self.settings[corpus]}
        for where, when, settings in self.special:
            if where in ("", corpus) and when.items() <= (options or {}).items():
                own |= settings
        return own


# What the papers share, over which each sets its own. Adam is AdamW without decay. Not taken over are stages that
# fine-tune a CNN, PVSE's plateau schedule (constant here; docs/differences.md#x-57), AdamP (PCME, PCME++), and the
# decay of VSE+2AD that compounds every epoch (once here; docs/differences.md#x-37).
COMMON_SETTINGS = {
    "weight_decay": 0.0, "clip": 2.0, "schedule": "step", "warmup_steps": 0, "batch_images": 128,
    "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300,
}  # fmt: skip
