"""The explorer as a page of its own, by the command `explore`, in a real browser: map, marks, links, colours, keys.
Skipped where no browser or no voila is installed. One server serves all tests; each page has a kernel of its own.
"""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from in_browser import (
    BROWSER,
    CARD,
    PATIENCE,
    SENTENCE,
    cards,
    contrasts,
    drag,
    free_port,
    lasso,
    point_to,
    status,
    wait_for,
    wait_for_server,
)
from PIL import Image
from tiny import tiny_config

from xmr_core.training.runs import train_or_load

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install -e '.[test]')")
pytest.importorskip("voila", reason="voila is not installed (pip install -e '.[app]')")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the path")]

IMAGES = 24
WIDE = {"width": 1400, "height": 1000}
KEYS_TO_WHY = ("Tab", "a red circle", "Enter", "Tab", "Enter", "Enter")  # field, sentence, ask, skip link, why?
TEXT_CONTRAST = 4.5  # WCAG 2, level AA


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The explorer of a folder of scenes with captions and splits, and two small methods; yields its address."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(home))
        runs = [train_or_load(tiny_config(name)) for name in ("dive", "pcme")]
    corpus = runs[0].prepared().corpus
    rows = np.flatnonzero((corpus.images["split"] == "test").to_numpy())[:IMAGES]
    lines = ["image,caption,split"]
    for n, (row, pixels) in enumerate(zip(rows, corpus.read_pixels(rows), strict=True)):
        Image.fromarray(pixels).save(folder / f"{n}.png")
        own = corpus.captions.loc[corpus.captions["image_id"] == corpus.images.index[row], "text"]
        lines += [f'{n}.png,"{text}",{"test" if n % 2 else "train"}' for text in own[:2]]
    (folder / "captions.csv").write_text("\n".join(lines))
    port = free_port()
    words = [sys.executable, "-m", "xmr_study", "explore", str(folder), "--run", "dive-1", "--run", "pcme-1"]
    server = subprocess.Popen(
        [*words, "--no-browser", f"--port={port}"],
        env=os.environ | {"XMR_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for_server(f"http://127.0.0.1:{port}/voila/static/")
        yield f"http://127.0.0.1:{port}/"
    finally:
        os.killpg(server.pid, 15)  # the command, voila and its kernels
        server.wait(20)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as pw:
        browser = pw.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser, address: str):
    page = browser.new_page(viewport=WIDE)
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.locator(CARD).first.wait_for()
    return page


@pytest.fixture(scope="module")
def page(browser, address):
    return opened(browser, address)


@pytest.fixture(scope="module")
def linked(page, browser, address):
    """The page's view of two methods, restricted on the map, with every panel open; and, in the dark, a page that was
    opened by its link."""
    page.set_viewport_size(WIDE)
    for name in ("Map", "Filter", "Save and share"):
        show(page, name)
    ask(page, "a red circle above a blue ring")
    page.get_by_label("beside").select_option("pcme-1")
    wait_for(page, "ranked by dive-1 and by pcme-1")
    page.locator(".js-plotly-plot .nsewdrag").first.wait_for()
    lasso(page)
    wait_for(page, f"of {IMAGES} images ranked")
    page.wait_for_function("location.search.includes('view=')")  # the address follows the view
    dark = opened(browser, page.url + "&theme=dark")
    wait_for(dark, f"of {IMAGES} images ranked")
    return page, dark


def ask(page, sentence: str) -> None:
    box = page.locator(SENTENCE)
    box.fill(sentence)
    box.press("Enter")
    page.locator("b", has_text=f"“{sentence}”").wait_for()


def show(page, panel: str) -> None:
    button = page.get_by_role("button", name=panel, exact=True)
    if button.get_attribute("aria-pressed") != "true":
        button.click()


def overflow(page) -> list[str]:
    """What is cut off at the right edge of the page, and whether the page can be moved sideways."""
    return page.evaluate(
        """() => {
        const inScroller = e => e.closest('.xmr-scroll, .js-plotly-plot');
        const out = [...document.querySelectorAll('.xmr *')].filter(
            e => e.offsetWidth && !inScroller(e) && e.getBoundingClientRect().right > innerWidth + 1);
        const wide = document.documentElement.scrollWidth > innerWidth ? ['the page'] : [];
        return wide.concat(out.map(e => e.outerHTML.slice(0, 150)));
    }"""
    )


def test_the_page_is_the_explorer_with_something_to_see(page):
    assert page.title() == "Explorer" and len(cards(page)) == 10 and f"{IMAGES} images ranked" in status(page)
    assert page.locator(".jp-InputArea").count() == 0 or not page.locator(".jp-InputArea").first.is_visible()
    bars = page.locator(".widget-hprogress").all()  # as many as there was work to do: one where nothing is cached
    assert bars and not any(bar.is_visible() for bar in bars)


def test_from_the_empty_page_to_why_by_keys(page):
    page.evaluate("document.activeElement.blur()")
    for n, key in enumerate(KEYS_TO_WHY):
        page.keyboard.type(key) if " " in key else page.keyboard.press(key)
        if n == 2:
            page.locator("b", has_text="“a red circle”").wait_for()
        if n == 4:
            page.wait_for_function("document.activeElement.innerText === 'why?'")
    wait_for(page, "why dive-1 found answer 1")
    assert "what each word adds" in page.locator(".xmr").inner_text()
    page.wait_for_function("document.activeElement.innerText === 'close'")
    page.keyboard.press("Enter")
    page.locator(".xmr-open").wait_for(state="detached")
    assert page.evaluate("document.activeElement.innerText") == "why?", "the keyboard is where it was"


@pytest.mark.parametrize(("answer", "height"), [(0, 1000), (9, 760)])
def test_why_opens_inside_the_window_beside_its_card(page, answer, height):
    page.set_viewport_size({**WIDE, "height": height})
    ask(page, "a red circle")
    page.get_by_role("button", name="why?").nth(answer).click()
    wait_for(page, f"why dive-1 found answer {answer + 1}:")
    page.wait_for_function("document.activeElement.innerText === 'close'")
    page.wait_for_timeout(300)  # the images of the explanation take their place
    card, panel = (
        page.evaluate("name => Object.values(document.querySelector(name).getBoundingClientRect().toJSON())", name)
        for name in (".xmr-card.xmr-open", ".xmr-panel")
    )
    for *_, top, right, bottom, left in (card, panel):
        assert top >= -1 and bottom <= height + 1 and left >= -1 and right <= WIDE["width"] + 1, (card, panel)
    assert 0 <= panel[4] - card[6] < 30, "right below its card"
    page.set_viewport_size(WIDE)


def test_the_gallery_scrolls_on_grows_and_opens_an_image(page):
    ask(page, "a blue ring")
    page.mouse.move(700, 900)
    for _ in range(3):
        page.mouse.wheel(0, 5000)
        page.wait_for_timeout(1500)
    page.wait_for_function(f"document.querySelectorAll(\"[aria-label^='answer ']\").length === {IMAGES}")
    height = lambda: page.locator(".xmr-photo").first.bounding_box()["height"]  # noqa: E731
    before = height()
    page.get_by_label("size of the images").fill("320")
    assert height() > 1.5 * before
    page.get_by_label("size of the images").fill("156")
    page.locator(".xmr-photo").first.click()
    dialog = page.locator("dialog[open]")
    dialog.locator("img").wait_for()
    first = dialog.inner_text()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("text => document.querySelector('dialog[open]').innerText !== text", arg=first)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("text => document.querySelector('dialog[open]').innerText === text", arg=first)
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_cards_that_stay_in_the_page_can_still_be_clicked(page):
    """A link to the same answers and more of them: the first cards are not drawn anew, and are those of the link."""
    cards_are = lambda n: page.wait_for_function(f'document.querySelectorAll("{CARD}").length === {n}')  # noqa: E731
    page.set_viewport_size({**WIDE, "height": 4000})  # nothing scrolls, which would bring more answers
    show(page, "Save and share")
    ask(page, "a green ring")
    cards_are(10)
    page.get_by_role("button", name="more answers").click()
    cards_are(20)
    page.wait_for_timeout(500)
    link = page.url
    ask(page, "a blue ring")
    ask(page, "a green ring")
    cards_are(10)
    page.get_by_label("Open a link").fill(link)
    page.get_by_label("Open a link").press("Enter")
    cards_are(20)
    page.wait_for_timeout(500)
    page.get_by_role("button", name="why?").first.click()
    wait_for(page, "why dive-1 found answer 1")
    page.set_viewport_size(WIDE)


def test_an_image_is_asked_by_its_card_by_paste_and_by_drop(page):
    ask(page, "a red circle")
    page.get_by_role("button", name="similar").first.click()
    wait_for(page, f"{IMAGES - 1} of {IMAGES} images ranked")
    page.get_by_label("words").fill("a blue ring")
    page.get_by_label("words").press("Enter")
    page.wait_for_function("document.querySelector('.xmr-field-words input').value === 'a blue ring'")
    assert page.locator("img[alt='the image that was the query']").count() == 1
    for event, holder in (("paste", "clipboardData"), ("drop", "dataTransfer")):
        page.evaluate(
            """async ([event, holder]) => {
            const image = document.querySelector('.xmr-asked'), held = new DataTransfer();
            const bytes = await (await fetch(image.src)).blob();
            held.items.add(new File([bytes], `by ${event}.png`, {type: 'image/png'}));
            const made = {bubbles: true, cancelable: true, [holder]: held};
            const target = event === 'paste' ? document.body : document.querySelector('.xmr-gallery .xmr-answers');
            target.dispatchEvent(event === 'paste' ? new ClipboardEvent(event, made) : new DragEvent(event, made));
        }""",
            [event, holder],
        )
        page.locator(".xmr-query", has_text=f"by {event}.png").wait_for()
        wait_for(page, "captions ranked")


def test_a_mark_keeps_the_keyboard_and_back_takes_it_back(page):
    ask(page, "a red circle above a blue ring")
    mark = page.get_by_role("button", name="✓", exact=True).nth(2)
    mark.focus()
    page.keyboard.press("Enter")
    wait_for(page, "marked as right")
    assert mark.get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.title") == "answer 3 is right"
    page.get_by_role("button", name="Back").click()
    wait_for(page, "marked as not judged")
    assert mark.get_attribute("aria-pressed") == "false"


def test_a_lasso_and_a_box_restrict_the_ranking(page):
    ask(page, "a red circle")
    show(page, "Map")
    show(page, "Filter")
    page.locator(".js-plotly-plot .nsewdrag").first.wait_for()
    page.wait_for_function("document.querySelector('.js-plotly-plot .main-svg').clientWidth > 1000")
    found = []
    right = [(0.5, 0.01), (0.99, 0.99)]
    for draw, beside in ((lasso, 0.75), (lambda page: drag(page, right), 0.25)):
        draw(page)
        wait_for(page, f"of {IMAGES} images ranked")
        found.append(int(re.match(r"(\d+) of", status(page))[1]))
        assert min(10, found[-1]) <= len(cards(page)) <= found[-1]
        page.wait_for_function("document.querySelector('.xmr').innerText.includes('selected on the map')")
        page.locator("[data-title='Box Select']").click()
        plot = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
        page.mouse.dblclick(plot["x"] + beside * plot["width"], plot["y"] + plot["height"] / 2)
        wait_for(page, f"{IMAGES} images ranked by")
        page.wait_for_function("!document.querySelector('.xmr').innerText.includes('selected on the map')")
    assert sum(found) == IMAGES and min(found) > 0, "the left half and the right half"


def test_the_pointer_shows_an_item(page):
    show(page, "Map")
    page.locator("[data-title='Pan']").click()
    first_answer, away = page.evaluate(
        """() => {
        const plot = document.querySelector('.js-plotly-plot'), {x, y} = plot.data[0];
        const {xaxis, yaxis} = plot._fullLayout;
        const number = [...plot.querySelectorAll('.xmr-answer')].find(mark => mark.textContent === '1');
        const at = number.getBoundingClientRect(), corner = plot.getBoundingClientRect();
        const across = at.x + at.width / 2 - corner.x - xaxis._offset;
        const down = at.y + at.height / 2 - corner.y - yaxis._offset;
        const away = [...x].map((x, n) => Math.hypot(xaxis.l2p(x) - across, yaxis.l2p(y[n]) - down));
        return [away.indexOf(Math.min(...away)), Math.min(...away)];
    }"""
    )
    assert away < 1, "the number of an answer is at its point"
    for trace, point in ((0, first_answer), (1, 5)):  # an image below its number, and a caption
        point_to(page, trace, point)
        page.locator(".js-plotly-plot .hovertext").wait_for()
        shown = page.evaluate("([t, p]) => document.querySelector('.js-plotly-plot').data[t].text[p]", [trace, point])
        page.wait_for_function(
            "text => document.querySelector('.xmr-map').innerText.replace(/\\s+/g, ' ').includes(text)", arg=shown
        )


def test_a_click_on_the_map_asks(page):
    ask(page, "a red circle")
    show(page, "Map")
    page.locator("[data-title='Pan']").click()
    point_to(page, 1, 5)
    page.locator(".js-plotly-plot .hovertext").wait_for()
    text = page.evaluate("document.querySelector('.js-plotly-plot').data[1].text[5]")
    page.mouse.down()
    page.mouse.up()
    page.locator("b", has_text=f"“{text}").wait_for()


def test_a_line_goes_from_an_answer_to_the_same_one_beside_it(linked):
    page, _ = linked
    ids = page.locator(".xmr-card").evaluate_all("all => all.map(e => e.dataset.item)")
    twin = next(n for n, item in enumerate(ids) if ids.count(item) == 2)
    page.locator(".xmr-card").nth(twin).hover()
    page.wait_for_function("document.querySelectorAll('.xmr-line line').length === 1")
    page.mouse.move(1, 1)
    page.wait_for_function("!document.querySelector('.xmr-line line')")


def test_a_link_opens_the_same_view(linked):
    page, dark = linked
    assert cards(dark) == cards(page) and len(cards(page)) > 2
    show(dark, "Filter")
    dark.wait_for_function("document.querySelector('.xmr').innerText.includes('selected on the map')")
    selected = [re.search(r"(\d+) of \d+ selected", p.locator(".xmr").inner_text())[1] for p in linked]
    assert selected[0] == selected[1]
    for n in (0, 1):
        menus = [p.get_by_label(("Method", "beside")[n]).input_value() for p in linked]
        assert menus[0] == menus[1]
    assert dark.locator("b", has_text="“a red circle above a blue ring”").count() == 1


def test_every_text_can_be_read_in_light_and_dark(linked):
    for page, theme in zip(linked, ("light", "dark"), strict=True):
        for name in ("Map", "Filter", "Save and share"):
            show(page, name)
        page.get_by_role("button", name="why?").first.click()
        wait_for(page, "why dive-1 found answer 1")
        page.wait_for_timeout(300)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", background)[:3])) > 384) == (theme == "light"), background
        found = contrasts(page)
        assert len(found) > 100, "all that is seen was measured"
        assert [pair for pair in found if pair[0] < TEXT_CONTRAST] == [], theme


def test_600_pixels_are_wide_enough(linked):
    for page in linked:
        page.set_viewport_size({"width": 600, "height": 900})
        page.wait_for_function("document.querySelector('.js-plotly-plot .main-svg')?.clientWidth < 600")
        assert overflow(page) == []
        page.set_viewport_size(WIDE)
