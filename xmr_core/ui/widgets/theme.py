"""The look of the explorer: one style sheet whose colours follow the theme of the page, light or dark."""

_MIXED = {  # a strong colour is mixed with that of the text, so it is dark on a light page and light on a dark one
    "soft": "var(--xmr-fg) 74%, var(--xmr-bg)", "line": "var(--xmr-fg) 24%, var(--xmr-bg)",
    "fill": "var(--xmr-fg) 7%, var(--xmr-bg)", "right": "#029e73 62%, var(--xmr-fg)",
    "wrong": "#d55e00 62%, var(--xmr-fg)", "accent": "#0173b2 62%, var(--xmr-fg)",
}  # fmt: skip
_VARIABLES = ";".join(f"--xmr-{name}:color-mix(in srgb, {mixed})" for name, mixed in _MIXED.items())

STYLE = f"""<style>
.xmr {{--xmr-fg:var(--jp-ui-font-color0,CanvasText); --xmr-bg:var(--jp-layout-color0,Canvas); {_VARIABLES};
  color:var(--xmr-fg); container-type:inline-size; padding:2px; overflow:visible}}
.xmr .widget-html-content, .xmr .jupyter-widgets label, .xmr .widget-label {{color:var(--xmr-fg)}}
.xmr .widget-html, .xmr .widget-html-content {{height:auto; line-height:1.3; overflow:visible; min-width:0}}
.xmr .jupyter-widgets {{max-width:100%}}
.xmr input::placeholder {{color:var(--xmr-soft); opacity:1; font-style:italic}}
.xmr input, .xmr select {{color:var(--xmr-fg); background-color:var(--xmr-bg)}}
.xmr select {{appearance:auto !important; background-image:none !important}}
.xmr .jupyter-button {{color:var(--xmr-fg); background:var(--xmr-fill); border:1px solid var(--xmr-line)}}
.xmr .jupyter-button.xmr-on, .xmr .jupyter-button.mod-active {{background:var(--xmr-fg); color:var(--xmr-bg)}}
.xmr :focus-visible {{outline:3px solid var(--xmr-accent) !important; outline-offset:1px}}
.xmr .xmr-skip:not(:focus) {{position:absolute; clip-path:inset(50%)}}
.xmr h3, .xmr h4 {{margin:4px 0; font-size:1.05em; color:var(--xmr-fg)}}
.xmr-soft {{color:var(--xmr-soft); font-size:90%}}
.xmr-right {{color:var(--xmr-right); font-weight:bold}} .xmr-wrong {{color:var(--xmr-wrong); font-weight:bold}}
.xmr-info {{color:var(--xmr-soft)}} .xmr-error {{color:var(--xmr-wrong)}} .xmr-busy {{color:var(--xmr-accent)}}
.xmr-columns {{display:flex; flex-wrap:wrap; gap:6px; align-items:flex-start; overflow:visible; margin:0}}
.xmr-column {{flex:1 1 360px; min-width:0; overflow:visible}}
.xmr-grid {{display:grid; grid-template-columns:repeat(auto-fill,minmax(156px,1fr)); grid-auto-flow:row dense; gap:6px;
  overflow:visible; margin:0}}
.xmr-grid.xmr-texts {{grid-template-columns:minmax(0,1fr)}}
.xmr-card {{border:2px solid var(--xmr-line); border-radius:4px; padding:4px; margin:0; overflow:hidden; width:auto;
  display:flex; flex-direction:column; justify-content:space-between}}
.xmr-texts > .xmr-card {{flex-direction:row; align-items:center; gap:8px}}
.xmr-texts > .xmr-card > .widget-html {{flex:1 1 0}}
.xmr-card:has(.xmr-relevant) {{border-color:var(--xmr-right)}}
.xmr-card.xmr-open {{border-color:var(--xmr-accent); outline:3px solid var(--xmr-accent)}}
.xmr-card .jupyter-button {{padding:0 6px; margin:1px}}
.xmr-photo {{display:block; width:100%; height:136px; object-fit:contain; background:var(--xmr-fill)}}
.xmr-asked {{max-width:240px; max-height:180px}}
.xmr-name {{overflow-wrap:anywhere}}
.xmr-caption {{display:-webkit-box; -webkit-line-clamp:2; -webkit-box-orient:vertical; overflow:hidden}}
.xmr-panel {{grid-column:1/-1; border:2px solid var(--xmr-accent); border-radius:4px; padding:6px; margin:0;
  overflow:hidden; width:auto}}
.xmr-panel > .widget-html {{overflow:auto; max-height:max(240px,calc(100vh - 460px))}}
.xmr-panel .jupyter-button {{scroll-margin:300px 0 max(260px,calc(100vh - 440px))}}
.xmr-map .js-plotly-plot {{flex:1 1 auto; min-width:0; position:relative}}
.xmr-marks {{position:absolute; inset:0; pointer-events:none; overflow:hidden; z-index:1}}
.xmr-marks span {{position:absolute; transform:translate(-50%,-50%)}} .xmr-marks span[hidden] {{display:none}}
.xmr-answer {{background:#a34700; color:#ffffff; border:1px solid #ffffff; font-size:11px; line-height:1.2;
  padding:0 2px}}
.xmr-query {{color:#e69f00; font-size:26px; line-height:1; text-shadow:0 0 2px #000,0 0 2px #000}}
[data-voila] .jp-OutputArea-child:has(.widget-hprogress .progress-bar-success):not(:has(.xmr)) {{display:none}}
.xmr-address {{width:60%; font-family:monospace}}
.xmr-figures {{display:flex; flex-wrap:wrap; gap:8px}}
.xmr-figures figure {{margin:0; max-width:180px}} .xmr-figures figcaption {{color:var(--xmr-fg); font-size:90%}}
.xmr-figures img {{display:block; max-width:100%; max-height:180px; min-width:96px; image-rendering:auto}}
.xmr-large {{display:block; max-width:100%; max-height:70vh; min-width:min(256px,100%)}}
.xmr-words span {{padding:1px 3px; border-radius:2px; color:var(--xmr-fg)}} .xmr-words {{line-height:1.9}}
.xmr table {{border-collapse:collapse; font-size:90%; color:var(--xmr-fg)}}
.xmr td, .xmr th {{padding:2px 8px; text-align:right; color:var(--xmr-fg); background-color:transparent}}
.xmr-scroll {{overflow-x:auto; max-width:100%}}
@container (max-width:720px) {{.xmr-grid {{grid-template-columns:repeat(auto-fill,minmax(132px,1fr))}}}}
body[data-voila] .jp-Cell:not(:has(.xmr)), body[data-voila] .cell:not(:has(.xmr)) {{display:none}}
body[data-voila] .jp-InputPrompt, body[data-voila] .jp-OutputPrompt {{display:none}}
</style>"""
