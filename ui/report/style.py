"""The style sheet of a report page, for light and dark, narrow and wide screens, and for paper."""

CSS = """
:root{color-scheme:light dark;--bg:#fbfaf8;--card:#fff;--ink:#1d1c1a;--soft:#6b6862;--line:#e4e1da;
--code:#f5f3ee;
--accent:#3858c9;--ok:#1f7a43;--bad:#b3261e;--warn:#8a5a00;--okbg:#e3f3e8;--badbg:#fbe6e4;--warnbg:#fbf0d6;
--other:#b9b4a9;--you:#eef1fc}
@media (prefers-color-scheme:dark){:root{--bg:#151618;--card:#1d1f22;--ink:#e7e5e0;--soft:#a09c94;
--line:#33363b;
--code:#26282c;--accent:#8fa8ff;--ok:#6fcf97;--bad:#ff8a80;--warn:#f0c36d;--okbg:#183325;--badbg:#3d1f1d;
--warnbg:#3a2f16;--other:#5f6168;
--you:#222840}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:62rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.7rem;line-height:1.25;margin:.2rem 0 .6rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.4rem 0 .8rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:0}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
.soft{color:var(--soft)}.line bdi{color:var(--ink)}
.brand{font-size:.8rem;letter-spacing:.08em;text-transform:uppercase;color:var(--soft)}
code,pre,.mono{font-family:ui-monospace,"Cascadia Mono",Menlo,Consolas,monospace;font-size:.86em}
code{background:var(--code);border-radius:4px;padding:.1em .3em;overflow-wrap:anywhere}
pre{background:var(--code);border-radius:8px;padding:.7rem .85rem;margin:.5rem 0 0;white-space:pre-wrap;
overflow-wrap:anywhere;max-height:36rem;overflow:auto;line-height:1.45}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:.7rem;margin:1.3rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.65rem .8rem}
.tile b{display:block;font-size:1.12rem;font-weight:650;overflow-wrap:anywhere}
.tile span{font-size:.8rem;color:var(--soft);display:block}
.pill{display:inline-block;border-radius:99px;padding:.05rem .6rem;font-size:.8rem;font-weight:600;
background:var(--code);color:var(--soft);white-space:nowrap}
.pill.ok{background:var(--okbg);color:var(--ok)}.pill.bad{background:var(--badbg);color:var(--bad)}
.pill.warn{background:var(--warnbg);color:var(--warn)}
.plan{list-style:none;padding:0;margin:0}.plan li{display:flex;gap:.7rem;padding:.45rem 0;
border-top:1px solid var(--line)}
.plan li:first-child{border-top:0}.plan .sum{color:var(--soft);font-size:.9rem;overflow-wrap:anywhere}
.plan .pill{align-self:flex-start;min-width:5.6rem;text-align:center}
.scroll{overflow-x:auto}meter{width:100%;min-width:6rem}
.turn{margin-top:1.6rem}
.you{background:var(--you);border-radius:12px;padding:.7rem 1rem;border:1px solid var(--line)}
.who{display:flex;justify-content:space-between;gap:1rem;font-size:.8rem;color:var(--soft);
margin-bottom:.15rem}
.who b{color:var(--ink)}
.prose{white-space:pre-wrap;overflow-wrap:anywhere}
.prose :is(p,li,th,td,h4){unicode-bidi:plaintext}.prose :is(p,ul,ol,blockquote){margin:.5rem 0}
.prose>:first-child{margin-top:0}.prose>:last-child{margin-bottom:0}
.prose h4{font-size:1rem;margin:.8rem 0 .3rem}.prose li>p{margin:.2rem 0}
.prose blockquote{border-left:3px solid var(--line);padding-left:.8rem;color:var(--soft)}
.prose table{width:auto;margin:.5rem 0}.prose :is(th,td){white-space:normal}.prose .number{text-align:right}
.utterance{margin:.9rem 0;padding:0 .1rem}
.card{background:var(--card);border:1px solid var(--line);border-left:3px solid var(--other);
border-radius:8px;
margin:.7rem 0;padding:.55rem .85rem}
.card.ok{border-left-color:var(--ok)}.card.bad{border-left-color:var(--bad)}
.card.warn{border-left-color:var(--warn)}
.card:target{outline:2px solid var(--accent)}
.calls>.card{margin:.4rem 0 .4rem 1rem}
.head{display:flex;flex-wrap:wrap;align-items:baseline;gap:.2rem .6rem}
.head .what{flex:1 1 14rem;min-width:0;overflow-wrap:anywhere}
.head .tool{font-weight:650}.head .right{display:flex;gap:.4rem;align-items:baseline;font-size:.8rem;
color:var(--soft)}
.line{font-size:.82rem;color:var(--soft);margin:.35rem 0;overflow-wrap:anywhere}
.line.bad{color:var(--bad)}.line.warn{color:var(--warn)}
.line.mark{display:flex;align-items:center;gap:.8rem;margin:1.2rem 0}
.line.mark::before,.line.mark::after{content:"";flex:1 1 1rem;border-top:1px solid var(--line)}
.line.mark>span{flex:0 1 auto}
details{margin-top:.45rem}summary{cursor:pointer;font-size:.84rem;color:var(--soft)}
summary:hover{color:var(--ink)}
.cut{color:var(--warn);font-size:.8rem;font-style:italic;display:block;margin:.3rem 0}
.step{border-left:2px solid var(--line);padding-left:1rem;margin:1rem 0 1.4rem}
.step>.stephead{display:flex;gap:.6rem;align-items:baseline;flex-wrap:wrap}
.diff{padding:.4rem 0}.diff span{display:block;padding:0 .85rem;min-height:1.45em}
.diff .a{background:var(--okbg);color:var(--ok)}.diff .d{background:var(--badbg);color:var(--bad)}
.diff .h{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:.87rem}
th{font-weight:600;text-align:left;color:var(--soft)}th,td{padding:.4rem .7rem .4rem 0;vertical-align:top;
border-bottom:1px solid var(--line)}td{overflow-wrap:anywhere}
@media (max-width:40rem){.calls>.card{margin-left:.2rem}
main{padding:1.2rem .8rem 3rem}h1{font-size:1.35rem}.step{padding-left:.6rem}
.tiles{grid-template-columns:repeat(2,1fr)}.plan li{flex-direction:column;gap:.2rem}.plan .pill{min-width:0}}
@media print{:root{color-scheme:light}body{background:#fff;font-size:11px}main{max-width:none;padding:0}
pre{max-height:none}.card,.tile,.you{break-inside:avoid-page}a{color:inherit}
details::details-content{content-visibility:visible;block-size:auto}}
""".strip()
