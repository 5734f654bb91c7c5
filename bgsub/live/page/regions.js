"use strict";

const DOT = 11; // radius of a corner, in pixels: a finger finds it
const LEAST = 1; // percent of the picture: what is smaller is no region
const CLOSE = 2; // percent: a corner so close to the next one is dropped

const far = ([a, b], [c, d]) => Math.max(Math.abs(a - c), Math.abs(b - d));
const clip = (value) => Math.min(Math.max(value, 0), 100);

// Draws and edits the regions over the picture of a camera; places are in percent of the picture.
class RegionEditor {
  constructor(root, card) {
    const find = (selector) => root.querySelector(selector);
    Object.assign(this, { card, regions: [], chosen: -1, drag: null });
    Object.assign(this, { box: find(".regions"), svg: find(".drawing"), which: find(".which"), called: find(".called") });
    Object.assign(this, { kind: find(".kind"), error: find(".error"), screen: find(".screen") });
    this.box.addEventListener("toggle", () => this.open());
    this.which.addEventListener("change", () => this.choose(this.which.selectedIndex));
    this.called.addEventListener("input", () => this.change({ name: this.called.value.trim() }));
    this.kind.addEventListener("change", () => this.change({ kind: this.kind.value }));
    this.remove = find(".delete");
    this.remove.addEventListener("click", () => {
      this.regions.splice(this.chosen, 1);
      this.choose(this.regions.length - 1);
    });
    find(".save").addEventListener("click", () => this.save());
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointermove", (event) => { if (this.drag) { this.drag(this.place(event)); this.draw(); } });
    for (const end of ["pointerup", "pointercancel"]) this.svg.addEventListener(end, () => this.release());
    new ResizeObserver(() => this.draw()).observe(this.screen);
  }

  show(regions) { // what holds now; not while somebody edits
    this.draw();
    if (!this.box.open) this.regions = regions;
  }

  open() {
    this.svg.toggleAttribute("hidden", !this.box.open);
    if (!this.box.open) return;
    if (this.card.select.value !== "input") { // the whole frame once
      this.card.select.value = "input";
      this.card.watch();
    }
    this.choose(this.regions.length - 1);
  }

  choose(index) {
    this.chosen = index;
    const region = this.regions[index];
    this.called.disabled = !region?.points; // the image of a mask stays as it is
    for (const part of [this.which, this.kind, this.remove]) part.disabled = !region;
    this.which.replaceChildren(...this.regions.map(({ name }, at) => new Option(name || `region ${at + 1}`)));
    this.which.selectedIndex = index;
    this.called.value = region?.name ?? "";
    this.kind.value = region?.kind ?? "roi";
    this.draw();
  }

  change(values) {
    Object.assign(this.regions[this.chosen], values);
    if (values.name !== undefined) {
      this.regions[this.chosen].text = null;
      this.which.selectedOptions[0].text = values.name;
    }
    this.draw();
  }

  async save() {
    const texts = (kind) => this.regions.filter((region) => region.kind === kind).map((region) => region.text ?? written(region));
    this.error.textContent = await send({ regions: { roi: texts("roi"), ignore: texts("ignore"), privacy: texts("privacy") } });
    if (!this.error.textContent) this.box.open = false;
  }

  place(event) {
    const box = this.svg.getBoundingClientRect();
    return [clip(100 * (event.clientX - box.left) / box.width), clip(100 * (event.clientY - box.top) / box.height)];
  }

  press(event) {
    event.preventDefault();
    this.svg.setPointerCapture(event.pointerId);
    const [start, { point, middle, region }] = [this.place(event), event.target.dataset];
    if (region !== undefined && Number(region) !== this.chosen) this.choose(Number(region));
    const { points } = this.regions[this.chosen] ?? {};
    if (middle !== undefined) points.splice(Number(middle) + 1, 0, start);
    if (point !== undefined || middle !== undefined) {
      const at = point !== undefined ? Number(point) : Number(middle) + 1;
      this.drag = (to) => { points[at] = to; this.dragged = at; };
    } else if (region !== undefined) {
      const before = points.map((corner) => [...corner]);
      this.drag = ([x, y]) => before.forEach(([a, b], at) => { points[at] = [clip(a + x - start[0]), clip(b + y - start[1])]; });
    } else {
      this.regions.push({ kind: "roi", name: this.free(), points: [start, start, start, start], text: null });
      this.choose(this.regions.length - 1);
      this.drag = ([x, y]) => { this.regions[this.chosen].points = [start, [x, start[1]], [x, y], [start[0], y]]; };
    }
    this.dragged = null;
    if (this.regions[this.chosen]) this.regions[this.chosen].text = null;
    this.draw();
  }

  release() {
    if (!this.drag) return;
    const { points } = this.regions[this.chosen];
    this.drag = null;
    const near = this.dragged !== null && [1, points.length - 1].some(
      (step) => far(points[this.dragged], points[(this.dragged + step) % points.length]) < CLOSE);
    if (near && points.length > 3) points.splice(this.dragged, 1);
    if (!points.some((point) => far(point, points[0]) >= LEAST)) {
      this.regions.splice(this.chosen, 1);
      this.choose(this.regions.length - 1);
    }
    this.draw();
  }

  free() { // a name that no region has
    let number = 1;
    while (this.regions.some(({ name }) => name === `region${number}`)) number += 1;
    return `region${number}`;
  }

  draw() {
    const { picture } = this.card;
    if (!this.box.open || !picture.naturalWidth) return;
    const zoom = Math.min(picture.clientWidth / picture.naturalWidth, picture.clientHeight / picture.naturalHeight);
    const [width, height] = [picture.naturalWidth * zoom, picture.naturalHeight * zoom];
    Object.assign(this.svg.style, {
      width: `${width}px`,
      height: `${height}px`,
      left: `${picture.offsetLeft + (picture.clientWidth - width) / 2}px`,
      top: `${picture.offsetTop + (picture.clientHeight - height) / 2}px`,
    });
    const at = ([x, y]) => [(x * width) / 100, (y * height) / 100];
    const parts = this.regions.flatMap(({ kind, name, points }, index) => {
      if (!points) return []; // the image of a mask
      const chosen = index === this.chosen ? "chosen" : "";
      const [x, y] = at(points.reduce((top, point) => (point[1] < top[1] ? point : top)));
      const label = element("text", { x: x + 6, y: y + 18 }, {});
      label.textContent = name;
      return [element("polygon", { points: points.map(at).join(" "), class: `${kind} ${chosen}` }, { region: index }), label];
    });
    const points = this.regions[this.chosen]?.points ?? [];
    const dots = points.flatMap((point, index) => {
      const next = points[(index + 1) % points.length];
      const [[x, y], [u, v]] = [at(point), at([(point[0] + next[0]) / 2, (point[1] + next[1]) / 2])];
      const middle = element("circle", { cx: u, cy: v, r: 0.6 * DOT, class: "middle" }, { middle: index });
      return [middle, element("circle", { cx: x, cy: y, r: DOT }, { point: index })];
    });
    this.svg.replaceChildren(...parts, ...dots);
  }
}

function element(name, attributes, data) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  Object.assign(made.dataset, data);
  return made;
}

// As the option --roi takes it.
function written({ name, points }) {
  const body = points.map((point) => point.map((value) => `${Number(value.toFixed(2))}%`).join(",")).join(";");
  return name ? `${name}=${body}` : body;
}
