// A minimal browser for the scripts of a report: elements with their events, and canvases that record what is drawn.
// The test provides `inflate` and `grey`, which decode lists of bytes (zlib; PNG to grey levels).
const VOID = ['meta', 'input'], FLAGS = ['hidden', 'disabled', 'checked'];
const decoded = (text) => text.replace(/&(?:amp|lt|gt|quot|#(\d+));/g, (all, code) => (code ? String.fromCharCode(code) : { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"' }[all]));
const ids = new Map(), timers = [];
class Element {
  nodes = []; attributes = new Map(); style = {}; dataset = {}; listeners = {}; parentElement = null; given = '';
  hidden = false; disabled = false; checked = false; open = false; className = ''; clientWidth = 720; clientHeight = 360;
  constructor(tag) { this.tag = tag; }
  setAttribute(name, value) {
    this.attributes.set(name, String(value));
    if (name === 'id') ids.set(this.id = value, this);
    else if (name === 'class') this.className = value;
    else if (name.startsWith('data-')) this.dataset[name.slice(5)] = value;
    else if (FLAGS.includes(name)) this[name] = true;
    else if (['min', 'max', 'value', 'type'].includes(name)) this[name] = value;
  }
  getAttribute(name) { return this.attributes.get(name) ?? null; }
  // A select defaults to its first option and rejects values that are not among its options; a slider clamps its value.
  get value() { return this.given || (this.tag === 'select' && this.querySelector('option')?.given) || ''; }
  set value(value) {
    const known = this.tag !== 'select' || this.querySelectorAll('option').some((o) => o.given === String(value));
    this.given = this.type === 'range' ? String(Math.max(this.min, Math.min(this.max ?? 100, value))) : known ? String(value) : '';
  }
  get children() { return this.nodes.filter((n) => n instanceof Element); }
  get textContent() { return this.nodes.map((n) => n.textContent ?? n).join(''); }
  set textContent(text) { this.nodes = [String(text)]; }
  set innerHTML(html) { this.nodes = []; parse(html, this); }
  take(nodes) { return nodes.map((n) => (n instanceof Element ? Object.assign(n, { parentElement: this }) : String(n))); }
  append(...nodes) { this.nodes.push(...this.take(nodes)); }
  prepend(...nodes) { this.nodes.unshift(...this.take(nodes)); }
  replaceChildren(...nodes) { this.nodes = this.take(nodes); }
  all() { return this.children.flatMap((c) => [c, ...c.all()]); }
  fits(one) { return one[0] === '.' ? this.className.split(' ').includes(one.slice(1)) : this.tag === one; }
  querySelectorAll(path) {
    const [one, ...rest] = path.split(' '), found = this.all().filter((e) => e.fits(one));
    return rest.length ? found.flatMap((e) => e.querySelectorAll(rest.join(' '))) : found;
  }
  querySelector(path) { return this.querySelectorAll(path)[0] ?? null; }
  closest(tag) { return this.fits(tag) ? this : this.parentElement?.closest(tag) ?? null; }
  beside(by) { const all = this.parentElement?.children ?? []; return all[all.indexOf(this) + by] ?? null; }
  get nextElementSibling() { return this.beside(1); }
  get previousElementSibling() { return this.beside(-1); }
  get tHead() { return this.querySelector('thead'); }
  get tBodies() { return this.querySelectorAll('tbody'); }
  get rows() { return this.querySelectorAll('tr'); }
  get classList() {
    const others = (name) => this.className.split(' ').filter((c) => c && c !== name);
    return { toggle: (name, on) => { this.className = [...others(name), ...(on ? [name] : [])].join(' '); } };
  }
  addEventListener(kind, act) { (this.listeners[kind] ??= []).push(act); }
  // Dispatches an event at this element, then at all its ancestors.
  fire(type, more = {}) {
    const event = { type, target: this, prevented: false, preventDefault() { this.prevented = true; }, ...more };
    for (let at = this; at; at = at.parentElement) {
      at['on' + type]?.(event);
      at.listeners[type]?.forEach((act) => act(event));
    }
    return event;
  }
  focus() { document.activeElement = this; }
  getBoundingClientRect() { return { left: 0, top: 0, right: this.clientWidth, bottom: this.clientHeight, width: this.clientWidth, height: this.clientHeight }; }
  scrollIntoView() {}
  setPointerCapture() {}
  showModal() { this.open = true; }
  close() { this.open = false; }
  getContext() { return this.pen ??= pen(); }
}
function parse(html, into) {
  const tag = /<(\/?)([a-z]\w*)((?:\s[\w:-]+(?:="[^"]*")?)*)\s*(\/?)>/g;
  for (let at = into, end = 0, found; (found = tag.exec(html));) {
    const [whole, closing, name, attributes, alone] = found;
    if (found.index > end) at.nodes.push(decoded(html.slice(end, found.index)));
    end = tag.lastIndex;
    if (closing) { at = at.parentElement; continue; }
    const element = new Element(name);
    for (const [, key, value] of attributes.matchAll(/([\w:-]+)(?:="([^"]*)")?/g)) element.setAttribute(key, decoded(value ?? ''));
    at.append(element);
    if (name === 'script' || name === 'style') {
      end = tag.lastIndex = html.indexOf(`</${name}>`, end);
      element.nodes.push(html.slice(found.index + whole.length, end));
    }
    if (!alone && !VOID.includes(name)) at = element;
  }
}

// ---- canvases -------------------------------------------------------------------------------------------------------
class DOMMatrix { constructor([a, b, c, d, e, f]) { Object.assign(this, { a, b, c, d, e, f }); } }
class ImageData { constructor(data) { this.data = data; } }
class Path2D {
  steps = [];
  addPath(path, m) {
    for (const [name, ...at] of path.steps) {
      const move = (v, k) => (k % 2 ? m.d * v + (k < 2 || name !== 'rect' ? m.f : 0) : m.a * v + (k < 2 || name !== 'rect' ? m.e : 0));
      this.steps.push([name, ...at.map(move)]);
    }
  }
  // West, north, east and south end of each of its pieces, in whole pixels.
  get pieces() {
    const pieces = [];
    for (const [name, ...at] of this.steps) {
      if (name === 'moveTo' || name === 'rect' || name === 'arc') pieces.push([Infinity, Infinity, -Infinity, -Infinity]);
      const ends = { rect: ([x, y, w, h]) => [x, y, x + w, y + h], arc: ([x, y, r]) => [x - r, y - r, x + r, y + r] }[name]?.(at) ?? at;
      const piece = pieces[pieces.length - 1];
      ends.forEach((v, k) => { piece[k % 2] = Math.min(piece[k % 2], v); piece[2 + k % 2] = Math.max(piece[2 + k % 2], v); });
    }
    return pieces.map((piece) => piece.map(Math.round));
  }
}
for (const name of ['moveTo', 'lineTo', 'quadraticCurveTo', 'arc', 'rect']) Path2D.prototype[name] = function (...at) { this.steps.push([name, ...at]); };
Path2D.prototype.closePath = () => {};
function pen() {
  const own = {
    drawn: [], dash: [], path: new Path2D(), rgba: null,
    setTransform() { own.drawn = []; },
    setLineDash(dash) { own.dash = dash; },
    beginPath() { own.path = new Path2D(); },
    putImageData(image) { own.rgba = image.data; },
    getImageData: () => ({ data: own.rgba }),
    drawImage(image, ...at) { own.drawn.push({ name: 'drawImage', at, rgba: own.rgba = image.rgba ?? image.pen.rgba }); },
    stroke(path = own.path) { own.drawn.push({ name: 'stroke', pieces: path.pieces, colour: own.strokeStyle, dash: own.dash }); },
    fill(path = own.path) { own.drawn.push({ name: 'fill', pieces: path.pieces, colour: own.fillStyle }); },
    fillText(text) { own.drawn.push({ name: 'fillText', text }); },
    strokeRect(...at) { own.drawn.push({ name: 'strokeRect', at, colour: own.strokeStyle }); },
    fillRect() {},
    arc(...at) { own.path.arc(...at); }, moveTo(...at) { own.path.moveTo(...at); }, lineTo(...at) { own.path.lineTo(...at); },
  };
  return own;
}
class Image { async decode() { this.rgba = grey([...atob(this.src.split(',')[1])].map((c) => c.charCodeAt(0))).flatMap((v) => [v, v, v, 255]); } }

// ---- the window -----------------------------------------------------------------------------------------------------
function atob(text) {
  const digits = [...text.replace(/=+$/, '')].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'.indexOf(c));
  const byte = (_, k) => { const at = Math.floor(8 * k / 6), turn = 8 * k % 6; return ((digits[at] << 6 | digits[at + 1]) >> (4 - turn)) & 255; };
  return String.fromCharCode(...Array.from({ length: Math.floor(digits.length * 6 / 8) }, byte));
}
class Blob { constructor([bytes]) { this.bytes = bytes; } stream() { return { pipeThrough: () => this.bytes }; } }
globalThis.DecompressionStream = class {};
class Response { constructor(bytes) { this.bytes = bytes; } async arrayBuffer() { return Uint8Array.from(inflate([...this.bytes])).buffer; } }
class ResizeObserver { constructor(act) { this.act = act; } observe() { Promise.resolve().then(this.act); } }
class Option extends Element { constructor(text, value) { super('option'); this.textContent = text; this.value = value; } }
const window = globalThis, devicePixelRatio = 1, page = new Element('page');
const document = { activeElement: null, getElementById: (id) => ids.get(id) ?? null, createElement: (tag) => new Element(tag), querySelectorAll: (path) => page.querySelectorAll(path) };
const matchMedia = () => ({ matches: false }), getSelection = () => ({ isCollapsed: true }), setTimeout = (act) => timers.push(act);
