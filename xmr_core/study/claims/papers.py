"""What the five papers claim, with the rule for each. Rules were fixed before the runs that decide them; do not edit one to fit a result."""

from xmr_core.study.claims.claim import Claim, Measure

_SETS = "smooth-Chamfer, slots"
_VARIANCE = {side: Measure(f"log circular variance of {side}", "", side, "log_circular_variance") for side in ("images", "captions")}
_ALPHAS = tuple(f"α={a}" for a in (1, 2, 4, 8, 16, 32, 64))


def _correlation(name: str, relevance: str, direction: str, metric: str) -> Measure:
    return Measure(f"Spearman's ρ, {name}, {direction}", relevance, direction, metric)


CLAIMS: tuple[Claim, ...] = (
    Claim("dive-sets", "DivE, Table 3 and B.1", "A set of embeddings beats a single vector under the same encoders.", (_SETS,), ("single vector",)),
    Claim("dive-similarity", "DivE, Table 3", "Smooth-Chamfer beats MIL, MP and Chamfer under the same encoders.", (_SETS,),
          ("MIL, slots", "MP, slots", "Chamfer, slots")),
    Claim("dive-smooth-mp", "DivE, Table 3", "Smooth-Chamfer beats match probability.", (_SETS,), ("MP, slots",)),
    Claim("dive-smooth-mil", "DivE, Table 3", "Smooth-Chamfer beats MIL.", (_SETS,), ("MIL, slots",)),
    Claim("dive-slots", "DivE, Table 3", "Slots beat PIE-Net and a transformer as makers of sets.", (_SETS,),
          ("smooth-Chamfer, PIE-Net", "smooth-Chamfer, transformer")),
    *(Claim(f"dive-collapse-mp-{side}", "DivE, Table 3, right", f"Match probability collapses the sets ({side}).", (_SETS,), ("MP, slots",), m)
      for side, m in _VARIANCE.items()),
    *(Claim(f"dive-collapse-pie-net-{side}", "DivE, Table 3, right", f"PIE-Net's sets collapse ({side}).", (_SETS,),
            ("smooth-Chamfer, PIE-Net",), m) for side, m in _VARIANCE.items()),
    Claim("dive-alpha-16", "DivE, Table 4", "α = 16 is the best scale.", ("α=16",), tuple(a for a in _ALPHAS if a != "α=16")),
    Claim("dive-alpha-large", "DivE, Table 4", "Scales above 4 are all good: better than 1 to 4 on average.", _ALPHAS[3:], _ALPHAS[:3],
          rule="means"),
    Claim("dive-k-4", "DivE, Table 4", "Four elements are the best number.", ("K=4",), ("K=1", "K=2", "K=3", "K=5", "K=6")),
    Claim("dive-k-large", "DivE, Table 4", "More than three elements are better than one to three.", ("K=4", "K=5", "K=6"),
          ("K=1", "K=2", "K=3"), rule="means"),
    Claim("dive-t-large", "DivE, Table 4", "More than two rounds are better than one or two.", ("T=3", "T=4", "T=5"), ("T=1", "T=2"),
          rule="means"),
    Claim("dive-slots-learned", "DivE, App. B.3", "Learned slots beat sampled ones.", ("slots as in the paper",), ("sampled slots",)),
    Claim("dive-slots-residual", "DivE, App. B.3", "The residual update beats a GRU.", ("slots as in the paper",), ("GRU update",)),
    Claim("dive-slots-global", "DivE, App. B.3", "Adding the global feature helps.", ("slots as in the paper",), ("without global feature",)),
    *(Claim(f"pcme-uncertainty-{d}", "PCME, Figure 6", f"The more uncertain a query, the lower its R@1 ({d}).", ("PCME",), (),
            _correlation("uncertainty and R@1", "annotated", d, "spearman_uncertainty_r1"), smaller=True) for d in ("i2t", "t2i")),
    *(Claim(f"pcme-ambiguity-{d}", "PCME, §1 and §4.4", f"Uncertainty rises with the true number of answers ({d}).", ("PCME",), (),
            _correlation("uncertainty and true answers", "exhaustive", d, "spearman_uncertainty_answers")) for d in ("i2t", "t2i")),
    *(Claim(f"pcme-corruption-{side}", "PCME, Figure 7", f"Uncertainty grows as {what}.", ("PCME with word drop",), (),
            Measure(f"mean log σ, all of it corrupted minus none, {side}", "", side, "uncertainty_rise"))
      for side, what in (("images", "pixels are erased"), ("captions", "words are blanked"))),
    Claim("pcme-distribution", "PCME, Table 1", "A distribution beats its mean alone, trained so.", ("PCME",), ("PCME, μ only",)),
    *(Claim(f"pcme-match-probability-{d}", "PCME, Table 1", f"At test time match probability beats comparing means ({d}).", ("PCME",), (),
            Measure(f"R-Precision annotated, match probability minus mean only, {d}", "annotated", d, "r_precision_gain_of_sampling", factor=100))
      for d in ("i2t", "t2i")),
    Claim("sgraf-ensemble", "SGRAF, Table 1", "SGR and SAF averaged beat either.", ("SAF + SGR",), ("SAF", "SGR")),
    Claim("sgraf-split", "SGRAF, Table 5", "Trained apart and averaged, SGR and SAF beat joint training.", ("SAF + SGR",), ("SGRAF, joint",)),
    Claim("sgraf-scan", "SGRAF, Table 1", "SGRAF beats SCAN's ensemble.", ("SAF + SGR",), ("SCAN t-i + SCAN i-t",)),
    Claim("scan-ensemble", "SCAN, Table 1", "t-i and i-t averaged beat either.", ("SCAN t-i + SCAN i-t",), ("SCAN t-i", "SCAN i-t")),
    Claim("scan-vsepp", "SCAN, Table 1", "Cross attention beats one vector.", ("SCAN t-i", "SCAN i-t"), ("VSE++",)),
    Claim("vse2ad-gpo", "VSE+2AD, Table 1", "AdPool and AdOpt beat GPO.", ("VSE+2AD",), ("VSE∞",)),
    Claim("vse2ad-scan", "VSE+2AD, Table 1", "VSE+2AD beats SCAN.", ("VSE+2AD",), ("SCAN t-i", "SCAN i-t")),
    Claim("vse-infty-vsepp", "VSE∞, via VSE+2AD, Table 1", "Generalised pooling beats mean pooling.", ("VSE∞",), ("VSE++",)),
    Claim("dive-vse-infty", "DivE, Table 1", "DivE beats VSE∞.", ("DivE",), ("VSE∞",)),
    Claim("dive-pvse", "DivE, Table 1", "DivE beats PVSE and PCME.", ("DivE",), ("PVSE", "PCME")),
)  # fmt: skip
