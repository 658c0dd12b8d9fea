from xmr_core.base.precision import PRECISIONS

__all__ = ["PRECISIONS"]
