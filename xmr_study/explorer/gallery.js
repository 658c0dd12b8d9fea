// The answers in the page. Python ranks and says what is shown; this shows it, and tells Python what a person does.

const make = (tag, fields = {}, ...inside) => {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...inside.filter(Boolean));
  made.dataset.lmSuppressShortcuts = "true";  // else JupyterLab takes arrow keys from what has the keyboard
  return made;
};
const labelled = (made, label) => (made.setAttribute("aria-label", label), made);

function render({ model, el }) {
  const thumbs = new Map(), lacked = new Set();  // id of an image → data URI; those that were asked for
  let drawing = false;
  const tell = (act, fields = {}, buffers = []) => model.send({ act, ...fields }, undefined, buffers);
  const button = (text, title, act, fields = {}) => {
    const made = make("button", { textContent: text, title, type: "button", onclick: () => tell(act, fields) });
    made.dataset.key = [act, ...Object.entries(fields).filter(([name]) => name !== "view")].join();
    return made;
  };
  const header = make("div"), controls = make("div", { className: "xmr-controls" });
  const skip = make("button", { textContent: "To the answers", className: "xmr-skip", type: "button" });
  const ask = make("button", { textContent: "Ask", title: "rank the images for this sentence", type: "button" });
  ask.onclick = () => controls.querySelector("input").onkeydown({ key: "Enter" });
  [skip.dataset.key, ask.dataset.key] = ["skip", "ask"];
  skip.onclick = () => columns.querySelector(".xmr-acts button")?.focus();
  const said = make("div", { className: "xmr-said" }), asked = make("div", { className: "xmr-query" });
  const chips = make("div", { className: "xmr-chips" }), columns = make("div", { className: "xmr-columns" });
  const more = button("more answers", "show more answers; scrolling does the same", "more");
  const shown = make("div"), dialog = make("dialog", { className: "xmr-dialog" }, shown);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const size = labelled(make("input", { type: "range", min: 96, max: 360, value: 156 }), "size of the images");
  size.oninput = () => frame.style.setProperty("--xmr-size", `${size.value}px`);
  const file = make("input", { type: "file", accept: "image/*", hidden: true });
  const send = async image => image && tell("upload", { name: image.name ?? "" }, [await image.arrayBuffer()]);
  file.onchange = () => { send(file.files[0]); file.value = ""; };
  const upload = make("button", { textContent: "Upload an image", type: "button", onclick: () => file.click() });
  upload.title = "or paste one, drop it here, or type its path as the sentence";
  const tools = make("div", { className: "xmr-tools" }, upload, file, make("label", {}, "size ", size));
  line.setAttribute("class", "xmr-line");
  el.classList.add("xmr-gallery");
  const frame = make("div", { className: "xmr-frame" }, columns, line);
  el.append(make("div", { className: "xmr-top" }, header, controls));
  el.append(make("div", { className: "xmr-answers" }, said, tools, asked, chips, frame, more, dialog));

  const fill = place => {  // images that the page does not have are asked for
    const lacking = new Set();
    for (const image of place.querySelectorAll("img[data-at]"))
      thumbs.has(image.dataset.at) ? (image.src = thumbs.get(image.dataset.at)) : lacking.add(image.dataset.at);
    const items = [...lacking].filter(id => !lacked.has(id));
    items.forEach(id => lacked.add(id));
    if (items.length) tell("thumbs", { items });
  };
  const keeping = draw => () => {  // what has the keyboard keeps it when it is drawn anew
    const key = el.contains(document.activeElement) && document.activeElement.dataset.key;
    drawing = true;  // taking what has the keyboard out of the page would tell what is half typed
    draw();
    drawing = false;
    if (key) [...el.querySelectorAll("[data-key]")].find(e => e.dataset.key === key)?.focus({ preventScroll: true });
  };
  const makeControl = ({ kind, label, tip, act, fields, value, hint, span }) => {  // what is typed in it stays
    if (kind === "button") {
      const made = button(label, tip, act, fields);
      const update = ({ tip, off, on }) => {
        Object.assign(made, { title: tip, disabled: off });
        if (act === "panel") made.setAttribute("aria-pressed", on);
      };
      return Object.assign(made, { update });
    }
    const number = typeof value === "number" && kind !== "choice", note = make("span");
    const input = kind === "choice" ? make("select") : make("input", { type: span ? "range" : number ? "number" : "text", min: 0 });
    if (span) Object.assign(input, { min: span[0], max: span[1], step: 0.5 });
    let described, sent = input.value;  // by Python; to Python
    const told = () => {
      sent = input.value;
      tell(act, { ...fields, value: span ? 2 ** input.value : number ? +input.value : input.value });
    };
    const changed = () => { if (input.value !== sent && !drawing) told(); };
    const again = ["sentence", "keep", "open"].includes(act);  // also what was told before
    input.onkeydown = ({ key }) => { if (key === "Enter") again ? told() : changed(); };
    if (act !== "sentence") input.onchange = changed;
    input.dataset.key = [label, act].join();
    input.setAttribute("aria-label", label || hint);
    const update = ({ value, options, hint }) => {
      if (kind === "choice") input.replaceChildren(...options.map(([text, value]) => make("option", { value, textContent: text })));
      else input.placeholder = hint;
      const typing = kind === "field" && input.value !== sent, refused = kind === "field" && value === described;
      if (!typing && !refused) input.value = span ? Math.log2(value) : value;
      if (!typing) sent = input.value;
      if (span) note.textContent = ` ${+value.toPrecision(3)}`;
      described = value;
    };
    return Object.assign(make("label", { className: `xmr-field-${act}` }, label, " ", input, note), { update });
  };
  const area = () => {  // controls of one place; without an argument they show again what holds
    let before = new Map(), last = [];
    return (all = last) => {
      const now = new Map(all.map(control => [[control.label, control.act, JSON.stringify(control.fields)].join(), control]));
      const made = [...now].map(([key, control]) => [key, before.get(key) ?? makeControl(control)]);
      made.forEach(([key, element]) => element.update(now.get(key)));
      [before, last] = [new Map(made), all];
      return made.map(([, element]) => element);
    };
  };
  const [ofTop, ofQuery, ofChips] = [area(), area(), area()];
  const drawControls = keeping(() => {
    const all = model.get("controls"), made = ofTop(all.flat());
    const rows = all.map(row => make("div", { className: "xmr-row" }, ...made.splice(0, row.length)));
    rows[0]?.children[0].after(skip, ask);
    controls.replaceChildren(...rows);
  });
  const drawCard = (item, column, row) => {
    const where = { column, row, view: model.get("view") }, rank = row + 1;
    const acts = make("div", { className: "xmr-acts" });
    if (!item.plain) acts.append(button("why?", `why answer ${rank} is there`, "why", where));
    for (const [verdict, sign] of item.plain ? [] : [["right", "✓"], ["wrong", "✗"]]) {
      const mark = button(sign, `answer ${rank} is ${verdict}`, "mark", { ...where, verdict });
      mark.setAttribute("aria-pressed", item.verdict === verdict);
      acts.append(mark);
    }
    for (const [text, act] of item.asks) acts.append(button(text, `${text}: of answer ${rank}`, act, where));
    const card = make("div", { className: "xmr-card", innerHTML: item.html }, acts);
    card.dataset.item = item.id;
    const image = card.querySelector("img");
    if (image) image.onclick = () => enlarge(where);
    for (const event of ["mouseenter", "focusin"]) card.addEventListener(event, () => link(card));
    card.onmouseleave = () => line.replaceChildren();
    return card;
  };
  const link = card => {  // from a card to the same item in the other column
    line.replaceChildren();
    const own = [...columns.querySelectorAll(".xmr-card")].filter(e => e.dataset.item === card.dataset.item);
    if (own.length < 2) return;
    const at = line.getBoundingClientRect(), [a, b] = own.map(e => e.getBoundingClientRect());
    const path = document.createElementNS(line.namespaceURI, "line");
    const ends = { x1: a.right - at.x, y1: a.y + a.height / 2 - at.y, x2: b.x - at.x, y2: b.y + b.height / 2 - at.y };
    for (const [name, value] of Object.entries(ends)) path.setAttribute(name, value);
    line.append(path);
  };
  let shownBefore = [];  // the head and the items of each column, as texts
  const drawColumns = keeping(() => {
    const now = model.get("columns").map(({ head, items }) => [model.get("view") + head, ...items.map(item => JSON.stringify(item))]);
    const drawn = model.get("columns").map(({ head, items, texts, pairs }, n) => {
      const old = shownBefore[n] ?? [], grown = old.length && old.every((text, at) => text === now[n][at]);
      const cards = items.map((item, row) => [item, n, row]).slice(grown ? old.length - 1 : 0);
      const grid = grown ? columns.children[n].lastChild : make("div", { className: `xmr-grid ${texts ? "xmr-texts" : ""} ${pairs ? "xmr-pairs" : ""}` });
      grid.append(...cards.map(card => drawCard(...card)));  // what is there stays, also under the pointer
      return grown ? columns.children[n] : make("div", { className: "xmr-column" }, make("div", { innerHTML: head }), grid);
    });
    if (drawn.some((column, n) => column !== columns.children[n]) || drawn.length < columns.children.length)
      columns.replaceChildren(...drawn);
    shownBefore = now;
    line.replaceChildren();
    more.hidden = !model.get("columns").some(column => column.more);
    fill(columns);
    drawOpened(false);
  });
  const drawOpened = (focus = true) => {  // what is said of an answer, below its card
    const before = columns.querySelector(".xmr-open"), panel0 = columns.querySelector(".xmr-panel");
    const { column, row, html } = model.get("opened");
    const card = columns.children[column]?.querySelectorAll(".xmr-card")[row];
    if (!card && panel0?.contains(document.activeElement)) before.querySelector(".xmr-acts button").focus();
    before?.classList.remove("xmr-open");
    panel0?.remove();
    if (!card) return;
    const where = { column, row, view: model.get("view") };
    const close = button("close", `close what is said of answer ${row + 1}`, "why", where);
    close.dataset.key += ",close";  // else the card's own button would get the keyboard
    const panel = make("div", { className: "xmr-panel" }, close, make("div", { innerHTML: html }));
    panel.onkeydown = event => { if (event.key === "Escape") close.click(); };
    card.classList.add("xmr-open");
    card.after(panel);
    if (focus) close.focus();
  };
  const drawSaid = () => {
    const { text, kind, stop, stale } = model.get("said");
    const status = make("span", { className: `xmr-${kind}`, textContent: text });
    status.setAttribute("role", "status");
    said.replaceChildren(status, stop ? button("Stop", "leave it, and go on with what is shown", "stop") : "");
    if (kind !== "busy") ofTop();
    el.classList.toggle("xmr-waiting", kind === "busy");
    el.classList.toggle("xmr-stale", stale);  // answers to another query than the one that was refused
    el.setAttribute("aria-busy", kind === "busy");
  };
  const drawAsked = keeping(() => {
    asked.innerHTML = model.get("asked").html ?? "";
    fill(asked);
    const image = asked.querySelector("img");
    if (image) image.onclick = () => enlarge({});
    asked.append(...ofQuery(model.get("asked").controls ?? []));
  });
  const drawChips = keeping(() => chips.replaceChildren(...ofChips(model.get("chips"))));
  const turn = step => shown.dataset.row && tell("large", { column: +shown.dataset.column, row: +shown.dataset.row + step });
  const turns = [["←", -1], ["→", 1]].map(([sign, step]) => make("button", { textContent: sign, onclick: () => turn(step) }));
  turns.forEach((b, n) => labelled(b, ["the answer before", "the next answer"][n]));
  dialog.prepend(...turns, make("button", { textContent: "close", onclick: () => dialog.close() }));
  const enlarge = where => { shown.replaceChildren("…"); dialog.showModal(); tell("large", where); };
  const keys = { ArrowLeft: () => turn(-1), ArrowRight: () => turn(1), Escape: () => dialog.close() };
  dialog.onkeydown = event => keys[event.key]?.();
  const address = view => {  // of a page of its own that shows this view; of no image from elsewhere
    const now = new URL(location);
    view ? now.searchParams.set("view", view) : now.searchParams.delete("view");
    return "voila" in document.body.dataset ? now.href : undefined;
  };
  const received = {
    thumbs: ({ items }) => { for (const [id, uri] of Object.entries(items)) thumbs.set(id, uri); fill(el); },
    large: ({ html, column, row }) => {
      shown.innerHTML = html;
      Object.assign(shown.dataset, { column: column ?? "", row: row ?? "" });
    },
    save: ({ name, text }) => make("a", { download: name, href: URL.createObjectURL(new Blob([text])) }).click(),
    copy: ({ text }) => navigator.clipboard?.writeText(address(text) ?? `?view=${text}`),
  };
  model.on("msg:custom", content => received[content.kind](content));
  model.on("change:thumbs", () => received.thumbs({ items: model.get("thumbs") }));
  model.on("change:address", () => {
    const now = address(model.get("address"));
    if (now) history.replaceState(null, "", now);
  });
  const drawHeader = () => { header.innerHTML = model.get("header"); };
  const draws = { header: drawHeader, controls: drawControls, said: drawSaid, asked: drawAsked, chips: drawChips, columns: drawColumns, view: drawColumns, opened: drawOpened };
  for (const [name, draw] of Object.entries(draws)) model.on(`change:${name}`, () => draw());

  const scrolled = event => {
    if (event.type === "scroll" && !event.target.contains(el)) return;  // a field or a panel inside, not the page
    const at = more.getBoundingClientRect();
    if (!more.hidden && !model.get("said").stop && at.y < innerHeight + 200 && at.y > 0 && scrolled.n !== columns.innerText.length) {
      scrolled.n = columns.innerText.length;  // asked once for what is shown
      tell("more");
    }
  };
  const taken = event => {
    if (event.type === "paste" && event.target !== document.body && !el.contains(event.target)) return;
    const image = [...(event.clipboardData ?? event.dataTransfer).files].find(f => f.type.startsWith("image/"));
    if (image) { event.preventDefault(); send(image); }
  };
  const moves = ["scroll", "wheel"];  // a page that fits the window does not scroll
  for (const move of moves) document.addEventListener(move, scrolled, true);
  document.addEventListener("paste", taken);
  el.ondragover = event => event.preventDefault();
  el.ondrop = taken;
  received.thumbs({ items: model.get("thumbs") });
  for (const draw of Object.values(draws)) draw();
  return () => { for (const move of moves) document.removeEventListener(move, scrolled, true); document.removeEventListener("paste", taken); };
}
export default { render };
