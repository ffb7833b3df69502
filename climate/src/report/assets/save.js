// Buttons that save a figure: plots and static maps as SVG or PNG, canvas maps as PNG. The saved figure looks as on the
// screen, with its caption and the relevant part of the legend. It is created in the page; nothing is sent anywhere.
const saveButtons = (() => {
  const INHERITED = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'stroke-linecap', 'stroke-linejoin', 'font-size', 'font-weight', 'font-family', 'text-anchor'];
  const OWN = { opacity: '1', 'vector-effect': 'none', 'image-rendering': 'auto' };
  const style = (element) => getComputedStyle(element);
  const isClear = (colour) => colour === 'transparent' || /, 0\)$/.test(colour);

  // All colours used in a drawing.
  function coloursOf(svg) {
    const colours = [...svg.querySelectorAll('*')].flatMap((e) => [style(e).fill, style(e).stroke]);
    return new Set(colours);
  }

  // Marks and labels of a legend; a mark is a colour, or a line with a dash pattern.
  function marksOf(items, used) {
    return items.map((li) => {
      const mark = li.querySelector('i'), of = mark && style(mark);
      if (!of) return null;
      const is = (name) => mark.classList.contains(name);
      const steps = ['--a', '--b', '--c', '--d', '--e', '--f'].map((name) => parseFloat(of.getPropertyValue(name))).filter(Number.isFinite);
      const dash = steps.length ? steps.map((v, k) => v - (steps[k - 1] || 0)).filter((v) => v > 0)
        : { dashed: [7, 4], dotted: [2, 4] }[of.borderTopStyle] || [];
      const colour = isClear(of.backgroundColor) ? of.borderTopColor : of.backgroundColor;
      return { text: li.textContent.trim(), colour: is('stroke') ? style(li).color : colour, dash: is('stroke') || is('box') ? dash : null, hidden: used && !used.has(colour) };
    }).filter((mark) => mark && !mark.hidden);
  }

  // The legend before a figure under the same heading, or else that of the section's sources.
  function legendOf(figure) {
    for (let at = figure.parentElement; at && at.tagName !== 'H3'; at = at.previousElementSibling) {
      if (at.classList.contains('legend')) return at;
    }
    return figure.closest('section')?.querySelector('.legend.sources');
  }

  // Wraps text to lines of at most `most` characters, unless a word is longer.
  function lined(text, most) {
    const lines = [];
    for (const word of text.split(/\s+/)) {
      const last = lines.length - 1;
      if (last < 0 || lines[last].length + word.length >= most) lines.push(word);
      else lines[last] += ` ${word}`;
    }
    return lines;
  }

  // Adds caption, legend and colour bar to a figure: `inner` has a size of w x h units and letters of height u.
  function compose({ inner, w, h, u, width, caption, marks, bar, front, ground, under, font }) {
    const make = (name, attributes, text = '') => {
      const element = document.createElementNS(inner.namespaceURI, name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      return element;
    };
    const pad = 0.8 * u, root = make('svg', {}), parts = [];
    const say = (x, y, text, more = {}) => parts.push(make('text', { x, y, fill: front, 'font-size': u, 'font-family': font, ...more }, text));
    const room = Math.floor(w / (0.58 * u)), lines = lined(caption, room);
    const top = 1.4 * u * lines.length + 0.3 * u;
    lines.forEach((line, k) => say(0, 1.4 * u * (k + 1) - top - 0.3 * u, line, { 'font-weight': 600 }));
    if (under && !isClear(under)) parts.push(make('rect', { x: 0, y: 0, width: w, height: h, fill: under }));
    parts.push(inner);
    let [x, y] = [0, h + 1.6 * u];
    for (const { text, colour, dash } of marks) {
      const long = (dash ? 3.2 : 1.6) * u + 0.58 * u * text.length;
      if (x && x + long > w) [x, y] = [0, y + 1.5 * u];
      if (dash) parts.push(make('line', { x1: x, x2: x + 2.6 * u, y1: y - 0.35 * u, y2: y - 0.35 * u, stroke: colour, 'stroke-width': 0.2 * u, 'stroke-dasharray': dash.map((v) => v * u / 12).join(' ') || 'none' }));
      else parts.push(make('rect', { x, y: y - 0.8 * u, width: 0.9 * u, height: 0.9 * u, rx: 0.2 * u, fill: colour, stroke: front, 'stroke-width': 0.05 * u }));
      say(x + (dash ? 3 : 1.3) * u, y, text);
      x += long + 1.2 * u;
    }
    if (marks.length) y += 1.6 * u;
    if (bar) {
      const wide = Math.min(w, 36 * u), stops = style(bar.querySelector('i')).backgroundImage.match(/rgb\([^)]*\)/g) || [];
      const between = (s) => {
        const at = s * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2);
        const [a, b] = [stops[k], stops[k + 1]].map((c) => c.match(/[\d.]+/g).map(Number));
        return `rgb(${a.map((v, c) => Math.round(v + (at - k) * (b[c] - v)))})`;
      };
      // Each colour extends below the following ones, which avoids gaps.
      for (let k = 0; stops.length > 1 && k < 96; k++) parts.push(make('rect', { x: wide * k / 96, y: y - 0.8 * u, width: wide * (1 - k / 96), height: 0.8 * u, fill: between(k / 95) }));
      const labels = [...bar.querySelectorAll('span')];
      labels.forEach((span, k) => say(wide * parseFloat(span.style.left) / 100, y + 1.2 * u, span.textContent, { 'text-anchor': k === 0 ? 'start' : k < labels.length - 1 ? 'middle' : 'end' }));
      const words = lined(bar.querySelector('p').textContent, room);
      words.forEach((line, k) => say(0, y + (2.6 + 1.3 * k) * u, line));
      y += (2.9 + 1.3 * words.length) * u;
    }
    const [W, H] = [w + 2 * pad, top + y - 1.6 * u + 2 * pad];
    const scale = width / w;
    root.setAttribute('viewBox', [-pad, -top - pad, W, H].map((v) => +v.toFixed(2)).join(' '));
    root.setAttribute('width', Math.round(W * scale));
    root.setAttribute('height', Math.round(H * scale));
    root.append(make('rect', { x: -pad, y: -top - pad, width: W, height: H, fill: ground }), ...parts);
    return root;
  }

  // A copy of a figure's drawing with the computed styles of the page; letters on maps are smaller than on small
  // screens.
  function ofFigure(figure, caption) {
    const svg = figure.querySelector('svg'), inner = svg.cloneNode(true), of = style(svg);
    const { width: w, height: h } = svg.viewBox.baseVal, isMap = svg.classList.contains('map');
    const u = isMap ? 0.014 * w : parseFloat(of.fontSize);
    const from = [svg, ...svg.querySelectorAll('*')], to = [inner, ...inner.querySelectorAll('*')];
    from.forEach((element, k) => {
      const own = style(element), around = k && style(element.parentElement);
      for (const name of ['class', 'style', 'role', 'aria-hidden']) to[k].removeAttribute(name);
      for (const name of INHERITED) {
        const value = own.getPropertyValue(name);
        if (!k || value !== around.getPropertyValue(name)) to[k].setAttribute(name, value);
      }
      for (const [name, usual] of Object.entries(OWN)) {
        const value = own.getPropertyValue(name);
        if (value && value !== usual) to[k].setAttribute(name, value);
      }
    });
    inner.setAttribute('font-size', u);
    // Coastlines are stored once per page, so copy them into the drawing.
    const paths = new Set([...svg.querySelectorAll('use')].map((use) => use.getAttribute('href').slice(1)));
    const copies = [...paths].map((id) => {
      const copy = document.getElementById(id).cloneNode(true);
      copy.setAttribute('vector-effect', 'non-scaling-stroke');
      return copy;
    });
    if (copies.length) {
      const defs = document.createElementNS(svg.namespaceURI, 'defs');
      defs.append(...copies);
      inner.prepend(defs);
    }
    for (const [name, value] of Object.entries({ x: 0, y: 0, width: w, height: h, overflow: 'hidden' })) inner.setAttribute(name, value);
    const list = legendOf(figure), after = figure.parentElement.nextElementSibling;
    const bar = figure.querySelector('.bar') || (after?.classList.contains('bar') && svg.querySelector('image') ? after : null);
    const words = figure.querySelector('figcaption');
    return compose({
      inner, w, h, u, width: isMap ? 1000 : svg.clientWidth || w, caption, bar,
      marks: list ? marksOf([...list.children], coloursOf(svg)) : [],
      front: style(words).color, ground: style(figure).backgroundColor, under: of.backgroundColor, font: of.fontFamily,
    });
  }

  // A canvas as an image, with `caption` above and its legend below.
  function ofCanvas(canvas, caption, keys, bar) {
    const holder = canvas.closest('.viewer, dialog'), svg = document.querySelector('svg');
    const inner = document.createElementNS(svg.namespaceURI, 'image');
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    for (const [name, value] of Object.entries({ width: w, height: h, href: canvas.toDataURL() })) inner.setAttribute(name, value);
    return compose({
      inner, w, h, u: 13, width: w, caption, bar, marks: keys,
      front: style(holder).color, ground: style(holder).backgroundColor, under: null, font: style(holder).fontFamily,
    });
  }

  function give(blob, name, end) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = `${name.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 80) || 'figure'}.${end}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  async function save(drawing, name, end) {
    const text = new XMLSerializer().serializeToString(drawing);
    if (end === 'svg') return give(new Blob([text], { type: 'image/svg+xml' }), name, end);
    const image = new Image();
    image.src = 'data:image/svg+xml,' + encodeURIComponent(text);
    await image.decode();
    // At least wide enough for print, and no coarser than the screen.
    const scale = Math.max(window.devicePixelRatio || 1, 2000 / image.width);
    const sheet = Object.assign(document.createElement('canvas'), { width: Math.round(image.width * scale), height: Math.round(image.height * scale) });
    sheet.getContext('2d').drawImage(image, 0, 0, sheet.width, sheet.height);
    sheet.toBlob((blob) => give(blob, name, end));
  }

  function button(text, label, act) {
    const made = Object.assign(document.createElement('button'), { type: 'button', textContent: text, onclick: act });
    made.setAttribute('aria-label', label);
    return made;
  }

  // Adds the save buttons to these figures.
  function offer(figures) {
    for (const figure of figures) {
      const words = figure.querySelector('figcaption');
      if (!words || !figure.querySelector('svg')) continue;
      const name = words.textContent.trim(), all = document.createElement('span');
      all.className = 'save';
      for (const end of ['svg', 'png']) {
        const what = end.toUpperCase();
        all.append(button(what, `Save as ${what}: ${name}`, () => save(ofFigure(figure, name), name, end)));
      }
      words.append(all);
    }
  }

  const $ = (id) => document.getElementById(id);
  offer(document.querySelectorAll('figure'));
  $('canvas')?.parentElement.querySelector('.zoom').append(button('⤓', 'Save the map as PNG', () => {
    const shown = ['class-legend', 'difference-legend'].map($).find((list) => !list.hidden);
    const layers = [...document.querySelectorAll('.layers label')].filter((label) => label.querySelector('input').checked && !label.querySelector('input').disabled);
    const caption = `${document.title}, ${$('stamp').textContent}`, bar = $('field-bar')?.parentElement;
    save(ofCanvas($('canvas'), caption, marksOf([...shown.children, ...layers]), bar), caption, 'png');
  }));
  $('life-close')?.parentElement.prepend(button('⤓', 'Save the map of the track as PNG', () => {
    const name = $('life-name').textContent;
    save(ofCanvas($('life-map'), `${name}, ${$('life-now').textContent}`, []), name, 'png');
  }));
  return offer;
})();
