// Draws the diagrams of a page with the copy of Mermaid beside this file, which is loaded only where a page has a
// diagram. Without it the theme would load Mermaid from another host. Where the copy is missing, a diagram is its text.
(function () {
  const place = document.currentScript.src.replace(/diagrams\.js.*$/, "mermaid.min.js");
  const show = (text) => {
    const box = document.createElement("pre");
    box.textContent = text;
    return { svg: box.outerHTML };
  };
  let options = {};
  let library;
  const load = () =>
    (library ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = place;
      script.onload = () => {
        window.mermaid.initialize(options);
        done(window.mermaid);
      };
      script.onerror = () => done({ render: async (_, text) => show(text) });
      document.head.append(script);
    }));
  window.mermaid = {
    initialize: (wanted) => {
      options = wanted;
    },
    render: async (id, text) => (await load()).render(id, text),
  };
})();
