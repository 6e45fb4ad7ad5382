// Typesets the formulas of a page. `pymdownx.arithmatex` has put each into an element of the class `arithmatex`, as
// \( inline \) or \[ display \]. Beside this file lies KaTeX 0.19.1 (LICENSE), with its woff2 fonts alone: nothing is
// fetched from elsewhere.
for (const element of document.querySelectorAll(".arithmatex")) {
  const text = element.textContent.trim();
  katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: false });
}
