"""Similarities, losses and heads again, as float64 Python loops over the equations: slow, plain, sharing nothing with
xmr_core.

Sets are lists of items, an item is a list of its real vectors (numpy, float64): there is no padding here. S: images ×
captions.
"""

import math

import numpy as np


def real(x, mask) -> list[list[np.ndarray]]:
    """The real rows of every item of a padded tensor."""
    return [[row.double().numpy() for row in item[m]] for item, m in zip(x.detach(), mask, strict=True)]


def scores(images, captions, similarity) -> np.ndarray:
    return np.array([[similarity(image, caption) for caption in captions] for image in images])


# similarities of two sets


def smooth_chamfer(xs, ys, alpha=16.0):
    a = sum(math.log(sum(math.exp(alpha * float(x @ y)) for y in ys)) for x in xs) / len(xs)
    b = sum(math.log(sum(math.exp(alpha * float(x @ y)) for x in xs)) for y in ys) / len(ys)
    return (a + b) / (2 * alpha)


def euclidean_smooth_chamfer(xs, ys, alpha=4.0):
    far = lambda x, y: math.exp(-alpha * math.sqrt(float(((x - y) ** 2).sum())))  # noqa: E731
    a = sum(math.log(sum(far(x, y) for y in ys)) for x in xs) / len(xs)
    b = sum(math.log(sum(far(x, y) for x in xs)) for y in ys) / len(ys)
    return (a + b) / (2 * alpha)


def chamfer(xs, ys):
    a = sum(max(float(x @ y) for y in ys) for x in xs) / len(xs)
    b = sum(max(float(x @ y) for x in xs) for y in ys) / len(ys)
    return (a + b) / 2


def mil(xs, ys):
    return max(float(x @ y) for x in xs for y in ys)


def mp(xs, ys, a=1.0, b=0.0, reduction="mean"):
    votes = [1 / (1 + math.exp(-(a * float(x @ y) + b))) for x in xs for y in ys]
    return sum(votes) / (len(votes) if reduction == "mean" else 1)


def cosine(xs, ys):
    return float(xs[0] @ ys[0])


def order(xs, ys):
    return -math.sqrt(sum(max(0.0, t - v) ** 2 for v, t in zip(xs[0], ys[0], strict=True)))


def scan(xs, ys, direction="t2i", sharpness=9.0, aggregate="lse", lse_scale=6.0, normalise="clipped_l2norm", leak=0.1):
    contexts, queries = (xs, ys) if direction == "t2i" else (ys, xs)
    attention = scan_attention(contexts, queries, sharpness, normalise, leak)
    relevance = []
    for q, weights in zip(queries, attention, strict=True):
        c = sum(w * x for w, x in zip(weights, contexts, strict=True))
        relevance.append(float(c @ q) / max(float(np.linalg.norm(c) * np.linalg.norm(q)), 1e-8))
    return {
        "lse": lambda r: math.log(sum(math.exp(lse_scale * v) for v in r)) / lse_scale,
        "mean": lambda r: sum(r) / len(r),
        "sum": sum,
        "max": max,
    }[aggregate](relevance)


def scan_attention(contexts, queries, sharpness, normalise, leak=0.1):
    """One row per query: weights over the contexts."""
    u = [[float(x @ q) for x in contexts] for q in queries]
    if normalise.startswith("clipped"):
        u = [[v if v > 0 else leak * v for v in row] for row in u]
    for c in range(len(contexts)):
        column = [row[c] for row in u]
        if normalise.endswith("l2norm"):
            column = [v / (math.sqrt(sum(w * w for w in column)) + 1e-8) for v in column]
        elif normalise == "softmax":
            column = softmax(column)
        for row, v in zip(u, column, strict=True):
            row[c] = v
    return [softmax([sharpness * v for v in row]) for row in u]


def sum_max(xs, ys, direction="t2i", aggregate="sum"):
    if direction == "both":
        return sum_max(xs, ys, "t2i", aggregate) + sum_max(xs, ys, "i2t", aggregate)
    contexts, queries = (xs, ys) if direction == "t2i" else (ys, xs)
    total = sum(max(float(x @ q) for x in contexts) for q in queries)
    return total / len(queries) if aggregate == "mean" else total


def chan(xs, ys, coding="vha", pooling="lse", alpha=0.1, beta=0.1, divide=False):
    if coding == "vha":
        r = [max(float(x @ y) for x in xs) for y in ys]
    elif coding == "tha":
        r = [max(float(x @ y) for y in ys) for x in xs]
    else:
        weights = [softmax([float(x @ y) / alpha for y in ys]) for x in xs]
        attended = [sum(w * y for w, y in zip(row, ys, strict=True)) for row in weights]
        r = [float(unit(x) @ unit(q)) for x, q in zip(xs, attended, strict=True)]
    return {
        "max": lambda: max(r),
        "mean": lambda: sum(r) / len(r),
        "sum": lambda: sum(r),
        "lse": lambda: math.log(sum(math.exp(v / beta) for v in r)) * (beta if divide else 1),
        "softmax": lambda: sum(w * v for w, v in zip(softmax([v / beta for v in r]), r, strict=True)),
    }[pooling]()


# losses on a score matrix


def hinge(S, match, margin, mining, reduction):
    return _hinge_rows(S, match, margin, mining, reduction) + _hinge_rows(S.T, match.T, margin, mining, reduction)


def _hinge_rows(S, match, margin, mining, reduction):
    rows, columns = S.shape
    costs = []  # one entry per positive ('hardest') or per (positive, negative)
    for i in range(rows):
        negatives = [S[i, n] for n in range(columns) if not match[i, n]]
        for p in range(columns):
            if not match[i, p]:
                continue
            each = [max(0.0, margin + n - S[i, p]) for n in negatives]
            if mining == "hardest":
                costs.append(max(each, default=0.0))
            elif mining == "all":
                costs += each
            else:
                costs += [min(c, margin) for c in each]
    if reduction == "sum":
        return sum(costs)
    if reduction == "batch_mean":
        return sum(costs) / (rows if mining == "hardest" else rows * columns)
    if mining == "semi-hard":
        costs = [c for c in costs if c > 0]
    return sum(costs) / max(len(costs), 1)


def info_nce(S, match, temperature):
    def one_way(S, match):
        terms = []
        for i, p in zip(*np.nonzero(match), strict=True):
            negative = sum(math.exp(S[i, n] / temperature) for n in range(S.shape[1]) if not match[i, n])
            own = math.exp(S[i, p] / temperature)
            terms.append(-math.log(own / (own + negative)))
        return sum(terms) / len(terms)

    return (one_way(S, match) + one_way(S.T, match.T)) / 2


def pairwise_sigmoid(S, degrees, scale, bias):
    total = 0.0
    for i in range(S.shape[0]):
        for j in range(S.shape[1]):
            z, m = scale * S[i, j] + bias, float(degrees[i, j])
            total += m * math.log1p(math.exp(-z)) + (1 - m) * math.log1p(math.exp(z))
    return total / sum(map(float, np.ravel(degrees)))


def pseudo_positive_matching(S, match, pseudo, smoothing):
    def cross_entropy(S, y):
        terms = [
            y[i, j] * math.log1p(math.exp(-S[i, j])) + (1 - y[i, j]) * math.log1p(math.exp(S[i, j]))
            for i in range(S.shape[0])
            for j in range(S.shape[1])
        ]
        return sum(terms) / len(terms)

    def with_pseudo(S, y):
        out = y.copy()
        for i in range(S.shape[0]):
            best = max(range(S.shape[1]), key=lambda j: (y[i, j], -j))
            for j in range(S.shape[1]):
                if S[i, j] >= S[i, best]:
                    out[i, j] = y[i, best]
        return out

    y = np.array([[1 - smoothing if m == 1 else smoothing if m == 0 else smoothing + (1 - 2 * smoothing) * m
                   for m in row] for row in np.asarray(match, float)])  # fmt: skip
    extra = cross_entropy(S, with_pseudo(S, y)) + cross_entropy(S.T, with_pseudo(S.T, y.T))
    return 2 * cross_entropy(S, y) + pseudo * extra


# regularisers


def gram_diversity(sets):
    out = []
    for rows in sets:
        unit = [r / np.linalg.norm(r) for r in rows]
        squares = [float(unit[a] @ unit[b]) ** 2 for a in range(len(unit)) for b in range(len(unit)) if a != b]
        out.append(math.sqrt(sum(squares)) / len(unit) ** 2)
    return sum(out) / len(out)


def pairwise_diversity(sets, t=2.0):
    out = []
    for rows in sets:
        unit = [r / np.linalg.norm(r) for r in rows]
        pairs = [(a, b) for a in range(len(unit)) for b in range(a)]
        out.append(sum(math.exp(-t * float(((unit[a] - unit[b]) ** 2).sum())) for a, b in pairs) / len(pairs))
    return sum(out) / len(out)


def mmd(images, captions, gamma=0.5):
    v, t = [x for item in images for x in item], [x for item in captions for x in item]

    def mean_kernel(xs, ys):
        return sum(math.exp(-gamma * math.sqrt(float(((x - y) ** 2).sum()))) for x in xs for y in ys) / (
            len(xs) * len(ys)
        )

    return mean_kernel(v, v) - 2 * mean_kernel(v, t) + mean_kernel(t, t)


# heads


def unit(x):
    return x / np.linalg.norm(x)


def layer_norm(x, weight, bias, eps=1e-5):
    return (x - x.mean()) / math.sqrt(x.var() + eps) * weight + bias


def softmax(x):
    e = [math.exp(v - max(x)) for v in x]
    return [v / sum(e) for v in e]


def sine_code(angle, d):
    """Channel 2i: sin(θ/10000^{2i/d}), 2i+1: cos of the same."""
    pairs = [angle / 10000 ** (2 * (c // 2) / d) for c in range(d)]
    return np.array([math.sin(a) if c % 2 == 0 else math.cos(a) for c, a in enumerate(pairs)])


def pie_net(w, locals_, global_):
    """(unit elements, residuals) of one item; w: the state dict as float64 arrays."""
    hidden = [np.tanh(w["w_1.weight"] @ x) for x in locals_]
    elements, residuals = [], []
    for row in w["w_2.weight"]:
        attention = softmax([float(row @ h) for h in hidden])
        pooled = sum(a * x for a, x in zip(attention, locals_, strict=True))
        residuals.append(1 / (1 + np.exp(-(w["fc.weight"] @ pooled + w["fc.bias"]))))
        elements.append(unit(layer_norm(global_ + residuals[-1], w["layer_norm.weight"], w["layer_norm.bias"])))
    return np.array(elements), np.array(residuals)


def slots(w, locals_, global_, iterations, heads, positions=None, over="slots"):
    """(unit elements, LN(E^T)) of one item without padding; positions: one code per local feature, or None. Round t
    reads `blocks.{t}.` of the state dict w where there is one."""
    head, E, k = w, list(w["latents"]), len(w["latents"])
    for t in range(iterations):
        w = {name.removeprefix(f"blocks.{t}."): weight for name, weight in head.items()}
        context = [layer_norm(x, w["norm_context.weight"], w["norm_context.bias"]) for x in locals_]
        placed = context if positions is None else [c + p for c, p in zip(context, positions, strict=True)]
        keys, values = [w["to_k.weight"] @ c for c in placed], [w["to_v.weight"] @ c for c in context]
        width = len(keys[0]) // heads
        queries = [w["to_q.weight"] @ layer_norm(e, w["norm_query.weight"], w["norm_query.bias"]) for e in E]
        read = [np.zeros(len(keys[0])) for _ in E]
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            logit = [[float(q[part] @ key[part]) / math.sqrt(width) for key in keys] for q in queries]  # k l
            if over == "inputs":
                weight = [softmax(row) for row in logit]
            else:
                columns = [softmax([logit[s][n] for s in range(k)]) for n in range(len(keys))]  # l k
                weight = [
                    [columns[n][s] / (sum(c[s] for c in columns) + 1e-7) for n in range(len(keys))] for s in range(k)
                ]
            for s in range(k):
                read[s][part] = sum(weight[s][n] * values[n][part] for n in range(len(keys)))
        E = [w["to_out.weight"] @ r + w["to_out.bias"] + e for r, e in zip(read, E, strict=True)]
        for s in range(k):
            hidden = w["ff_in.weight"] @ layer_norm(E[s], w["norm_ff.weight"], w["norm_ff.bias"]) + w["ff_in.bias"]
            gelu = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in hidden])
            E[s] = w["ff_out.weight"] @ gelu + w["ff_out.bias"] + E[s]
    P = [layer_norm(e, w["norm_last.weight"], w["norm_last.bias"]) for e in E]
    g = layer_norm(global_, w["norm_global.weight"], w["norm_global.bias"])
    return np.array([unit(p + g) for p in P]), np.array(P)


def gru(rows, w, u, b, c):
    """The states after each row of x, of weights W, U "3h e", "3h h" and b, c "3h" in the order r, z, n."""
    w, u, b, c = (t.tolist() for t in (w, u, b, c))
    size = len(u[0])
    h, states = [0.0] * size, []
    sigmoid = lambda v: 1 / (1 + math.exp(-v))  # noqa: E731
    for x in rows:
        of_x = [sum(p * q for p, q in zip(w[k], x, strict=True)) + b[k] for k in range(3 * size)]
        of_h = [sum(p * q for p, q in zip(u[k], h, strict=True)) + c[k] for k in range(3 * size)]
        r = [sigmoid(of_x[k] + of_h[k]) for k in range(size)]
        z = [sigmoid(of_x[k] + of_h[k]) for k in range(size, 2 * size)]
        new = [math.tanh(of_x[2 * size + k] + r[k] * of_h[2 * size + k]) for k in range(size)]
        h = [(1 - z[k]) * new[k] + z[k] * h[k] for k in range(size)]
        states.append(h)
    return states
