"""What the tests of the explorer in a real browser share: the browser, waiting, and what is measured in the page."""

import shutil
import socket
import time
import urllib.request

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (found := shutil.which(name))),
    None,
)
CARD = "[aria-label^='answer ']"
SENTENCE = "input[placeholder$='for example']"  # the field of sentences
PATIENCE = 90_000  # milliseconds, for a machine that does other things too


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_server(address: str, seconds: int = 60) -> None:
    """Until something answers at an address, and be it that the page is not there."""
    for _ in range(2 * seconds):
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"no server at {address} after {seconds} s")


def status(page) -> str:
    return page.locator("[role=status]").last.inner_text()


def wait_for(page, text: str) -> None:
    """Until the explorer's line says a text."""
    page.wait_for_function(
        "text => [...document.querySelectorAll('[role=status]')].some(e => e.innerText.includes(text))", arg=text
    )


def cards(page) -> list[str]:
    return page.locator(CARD).evaluate_all("all => all.map(e => e.innerText)")


def drag(page, corners: list[tuple[float, float]]) -> None:
    """Drag the pointer over the map, through corners in shares of its width and height."""
    plot = page.locator(".js-plotly-plot .nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*at[0])
    page.mouse.down()
    for x, y in at[1:]:
        page.mouse.move(x, y, steps=6)
    page.mouse.up()


def lasso(page) -> None:
    """Draw a lasso around the left half of the map."""
    page.locator("[data-title='Lasso Select']").click()
    drag(page, [(0.01, 0.01), (0.5, 0.01), (0.5, 0.99), (0.01, 0.99), (0.01, 0.02)])


def point_to(page, trace: int, point: int) -> None:
    """Move the pointer onto a point of the map."""
    page.locator(".js-plotly-plot .nsewdrag").first.scroll_into_view_if_needed()
    x, y = page.evaluate(
        """([trace, point]) => {
        const plot = document.querySelector('.js-plotly-plot'), {xaxis, yaxis} = plot._fullLayout;
        const at = plot.querySelector('.nsewdrag').getBoundingClientRect(), own = plot._fullData[trace];
        return [at.x + xaxis.d2p(own.x[point]), at.y + yaxis.d2p(own.y[point])];
    }""",
        [trace, point],
    )
    page.mouse.move(x - 2, y)
    page.mouse.move(x, y, steps=2)


def contrasts(page) -> list[tuple[float, str]]:
    """(contrast by WCAG 2, text) of every text that is seen in the explorer, the lowest first. Both colours are what
    the browser computed; a colour that is partly transparent is laid over what is behind it."""
    return [(value, text) for value, text in page.evaluate(_CONTRASTS)]


_CONTRASTS = """() => {
  const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const numbers = colour => {  // of any notation that the browser knows: red, green, blue and opacity
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const d = context.getImageData(0, 0, 1, 1).data;
    return [d[0], d[1], d[2], d[3] / 255];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ancestors = e => e ? [...ancestors(e.parentElement), e] : [];
  const behind = e => ancestors(e).reduce(
    (below, x) => over(numbers(getComputedStyle(x).backgroundColor), below), [255, 255, 255, 1]);
  const luminance = colour => {
    const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const [r, g, b] = colour.slice(0, 3).map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const found = [];
  const measure = (e, text, colour) => {
    const below = behind(e), own = numbers(colour);
    own[3] *= ancestors(e).reduce((share, x) => share * +getComputedStyle(x).opacity, 1);
    const [high, low] = [luminance(over(own, below)), luminance(below)].sort((a, b) => b - a);
    found.push([(high + .05) / (low + .05), text.trim().slice(0, 50)]);
  };
  const root = document.querySelector('.xmr');
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const place = range.getBoundingClientRect(), style = getComputedStyle(e);
    if (!walker.currentNode.data.trim() || !place.width || style.visibility !== 'visible') continue;
    if (e.closest('style, script, option, .js-plotly-plot')) continue;
    measure(e, walker.currentNode.data, e instanceof SVGElement ? style.fill : style.color);
  }
  for (const e of root.querySelectorAll('input, select, textarea')) {
    const typed = e.matches('select') || e.value;
    if (!e.offsetWidth || ['checkbox', 'range', 'file'].includes(e.type)) continue;
    measure(e, e.value || e.placeholder || e.innerText, getComputedStyle(e, typed ? null : '::placeholder').color);
  }
  return found.sort((a, b) => a[0] - b[0]);
}"""
