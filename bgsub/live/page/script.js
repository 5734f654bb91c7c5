"use strict";

const PERIOD = 500; // milliseconds between two looks at the numbers
const STREAMS = 4; // a browser has six connections to a server, and numbers and commands need some
const PAUSE = 100; // milliseconds between two pictures of a camera without a stream
const RETRY = 3000; // milliseconds until a picture that failed is asked for again
const LABELS = { threshold: "Threshold", noise_factor: "Noise factor", min_area: "Least area" };
const HELP = {
  threshold: "Least difference of colour of the foreground; lower finds more",
  noise_factor: "Threshold in units of each pixel's noise; lower finds more",
  min_area: "Smallest region of the foreground, as a share of the picture",
};
const NUMBERS = [
  ["time", (c) => (c.date ? c.date.slice(11, 19) : "–")],
  ["frames/s", (c) => c.frames_per_second.toFixed(1)],
  ["delay", (c) => (c.latency_ms === null ? "–" : `${Math.round(c.latency_ms)} ms`)],
  ["dropped", (c) => String(c.dropped)],
  ["foreground", (c) => `${(100 * c.foreground).toFixed(1)} %`],
  ["size", (c) => (c.width ? `${c.width} × ${c.height}` : "–")],
  ["phase", (c) => c.phase],
];

const link = document.getElementById("link");
const cards = [];
let active = null; // the card that keys go to: the one under the pointer, else the first

function play(address) {
  const dialog = document.getElementById("player"), video = dialog.querySelector("video");
  video.src = address;
  dialog.addEventListener("close", () => { video.removeAttribute("src"); video.load(); }, { once: true });
  dialog.showModal();
  video.play().catch(() => {});
}

function shown(name, value) {
  return name === "min_area" ? `${(100 * value).toFixed(2)} %` : String(Number(value.toFixed(3)));
}

async function send(command) {
  try {
    const answer = await fetch("control", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(command),
    });
    const content = await answer.json();
    if (answer.ok) show(content);
    else link.textContent = content.error;
    return content.error ?? "";
  } catch {
    lost();
    return "not saved";
  }
}

class Card {
  constructor(number, camera, views, settings) {
    const root = document.getElementById("camera").content.firstElementChild.cloneNode(true);
    const find = (selector) => root.querySelector(selector);
    Object.assign(this, { number, root, picture: find(".picture"), select: find(".view"), snapshot: find(".snapshot") });
    Object.assign(this, { states: find(".states"), notice: find(".notice"), held: null, events: find(".events"), listed: "" });
    root.addEventListener("pointerenter", () => { active = this; });
    find(".name").textContent = camera.name;
    this.picture.alt = `Picture of ${camera.name}`;
    for (const view of views) this.select.add(new Option(view, view, false, view === camera.view));
    this.select.addEventListener("change", () => this.watch());
    this.streams = number < STREAMS;
    this.listen(this.picture);
    this.numbers = NUMBERS.map(([name]) => {
      const group = document.createElement("div");
      const [term, value] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      value.dataset.number = name;
      group.append(term, value);
      find(".numbers").append(group);
      return value;
    });
    this.settings = settings.map((setting) => this.slider(setting, find(".settings")));
    this.switches = [...root.querySelectorAll("[data-switch]")];
    for (const button of this.switches) {
      button.addEventListener("click", () =>
        send({ camera: number, [button.dataset.switch]: button.getAttribute("aria-pressed") !== "true" }));
    }
    find("[data-command=reset]").addEventListener("click", () => send({ camera: number, reset: true }));
    document.getElementById("cameras").append(root);
    this.editor = new RegionEditor(root, this);
    this.watch();
  }

  slider(setting, place) {
    const label = document.getElementById("setting").content.firstElementChild.cloneNode(true);
    const [input, output] = [label.querySelector("input"), label.querySelector("output")];
    label.querySelector(".label").textContent = LABELS[setting.name] ?? setting.name;
    label.title = HELP[setting.name] ?? "";
    Object.assign(input, { min: setting.low, max: setting.high, step: setting.step, name: setting.name });
    input.addEventListener("input", () => {
      this.held = setting.name;
      output.textContent = shown(setting.name, input.valueAsNumber);
      send({ camera: this.number, parameters: { [setting.name]: input.valueAsNumber } });
    });
    input.addEventListener("change", () => { this.held = null; });
    place.append(label);
    return { name: setting.name, input, output };
  }

  listen(picture) {
    picture.addEventListener("load", () => {
      this.failed = false;
      if (this.streams) return;
      this.picture.replaceWith(picture);
      this.picture = picture;
      this.watchIn(PAUSE);
    });
    picture.addEventListener("error", () => {
      if (!picture.hasAttribute("src")) return;
      this.failed = true;
      this.watchIn(RETRY);
    });
    return picture;
  }

  watchIn(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (!link.classList.contains("lost")) this.watch(); // else the last picture stays until the run is back
    }, milliseconds);
  }

  watch() {
    clearTimeout(this.timer);
    const query = `camera=${this.number}&view=${encodeURIComponent(this.select.value)}`;
    this.snapshot.href = `snapshot.png?${query}`;
    if (document.hidden) {
      if (this.streams) this.picture.removeAttribute("src"); // its connection is of use to another tab
      return;
    }
    const next = this.streams ? this.picture : this.listen(this.picture.cloneNode());
    // A browser shows a picture of a stream when the next one begins, which does not come while the run waits.
    next.src = `${this.streams && !this.paused ? "stream" : "picture.jpg"}?${query}&at=${Date.now()}`;
  }

  show(camera) {
    const goesOn = this.paused && !camera.paused;
    this.paused = camera.paused;
    if (goesOn) this.watch();
    this.numbers.forEach((value, index) => { value.textContent = NUMBERS[index][1](camera); });
    for (const { name, input, output } of this.settings) {
      if (name === this.held) continue; // under a finger
      input.value = camera.parameters[name];
      output.textContent = shown(name, camera.parameters[name]);
    }
    for (const button of this.switches) button.setAttribute("aria-pressed", String(camera[button.dataset.switch]));
    const states = ["paused", "frozen"].filter((name) => camera[name]);
    if (camera.event) states.push(camera.event);
    if (!camera.paused && camera.silent) states.push("waiting for the camera ...");
    if (camera.busy) states.push(camera.busy);
    if (this.failed) states.push("no picture, trying again ...");
    this.states.textContent = states.join(", ");
    this.notice.textContent = camera.notice;
    this.list(camera.events);
    this.editor.show(camera.regions);
  }

  list(events) {
    const text = JSON.stringify(events);
    if (text === this.listed) return;
    this.listed = text;
    this.events.replaceChildren(...events.map((event) => {
      const query = `camera=${this.number}&number=${event.number}`;
      const item = document.createElement(event.clip ? "button" : "div");
      const [picture, caption] = [document.createElement("img"), document.createElement("span")];
      item.className = "event";
      picture.src = `event.jpg?${query}`;
      picture.alt = "";
      caption.textContent = [event.time, event.seconds === null ? "" : `${event.seconds} s`, ...event.regions].filter(Boolean).join(", ");
      item.append(picture, caption);
      item.title = event.clip ? "Play the clip" : "Motion that has ended";
      if (event.clip) item.addEventListener("click", () => play(`clip?${query}`));
      return item;
    }));
  }

  press(key) {
    const names = { " ": "paused", f: "frozen", b: "boxes" };
    if (key in names) this.switches.find((button) => button.dataset.switch === names[key]).click();
    else if (key === "r") this.root.querySelector("[data-command=reset]").click();
    else if (key === "s") this.snapshot.click();
    else if (key === "v") {
      this.select.selectedIndex = (this.select.selectedIndex + 1) % this.select.length;
      this.watch();
    } else return false;
    return true;
  }
}

function show(content) {
  if (cards.length === 0) {
    document.getElementById("cameras").classList.toggle("single", content.cameras.length === 1);
    content.cameras.forEach((camera, number) => cards.push(new Card(number, camera, content.views, content.settings)));
  }
  content.cameras.forEach((camera, number) => cards[number].show(camera));
  if (link.classList.contains("lost")) for (const card of cards) card.watch();
  link.classList.remove("lost");
  link.textContent = content.cameras.length === 1 ? "connected" : `${content.cameras.length} cameras`;
}

function lost() {
  link.classList.add("lost");
  link.textContent = "the run has ended or cannot be reached";
}

async function look() {
  try {
    const answer = await fetch("statistics");
    if (answer.ok) show(await answer.json());
    else lost();
  } catch {
    lost();
  }
  setTimeout(look, PERIOD);
}

document.addEventListener("visibilitychange", () => {
  for (const card of cards) card.watch();
});

document.addEventListener("keydown", (event) => {
  const elsewhere = event.target.closest("input, select, textarea, button, a, summary, dialog");
  if (event.ctrlKey || event.metaKey || event.altKey || elsewhere) return;
  const card = active ?? cards[0];
  if (card && card.press(event.key)) event.preventDefault();
});

look();
