"use strict";
// What every page needs: nodes, numbers, and a cue where a table goes on to the right.

const SVG = "http://www.w3.org/2000/svg";

function make(parent, name, attributes = {}, text = null) {
  const drawn = name === "svg" || (parent && parent.namespaceURI === SVG);
  const node = drawn ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

const exact = (v) => v === null ? "–" : v.toLocaleString("en", { maximumSignificantDigits: 5 });

function short(v) {
  for (const [size, mark] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(v) >= size) return Number((v / size).toPrecision(6)) + mark;
  return String(Number(v.toPrecision(6)));
}

for (const box of document.querySelectorAll(".wide, nav")) {
  const more = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 4);
  box.addEventListener("scroll", more);
  new ResizeObserver(more).observe(box);
  new MutationObserver(more).observe(box, { childList: true });
}
