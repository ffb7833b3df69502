// The interactive map: pictures of some times from the JSON element #data, events of all times from the event store.
(async () => {
  const store = await squall.store?.catch(() => null);
  const { $, mod, clamp } = squall;
  const data = JSON.parse($('data').textContent);
  const win = data.window;
  const [rows, cols] = data.shape;
  const frames = data.frames;
  const canvas = $('canvas');
  const ctx = canvas.getContext('2d');
  const CLASS_COLOURS = data.classColours;
  const CASING = 'rgba(8,14,20,0.7)';
  const DASHES = {
    heuristic: [], network: [7, 4], truth: [1.5, 4],
    other: [9, 3, 2, 3], other2: [14, 4], other3: [9, 3, 2, 3, 2, 3], other4: [3, 3.5], other5: [14, 3, 4, 3],
  };
  const DIFFERENCE = [null, [244, 246, 248, 190], [92, 140, 255, 235], [45, 212, 176, 235], [200, 120, 255, 235]];
  // Times of the slider: those with pictures, and all at which an event has a point. Without events, the indices of the
  // pictures.
  const pictured = store ? store.head.frames : frames.map((_, k) => k);
  const pictureAt = new Map(pictured.map((t, k) => [t, k]));
  const moments = store ? Float64Array.from(new Set([...pictured, ...unique(store.point.t)])).sort() : Float64Array.from(pictured);
  const momentAt = (t) => {
    let low = 0;
    for (let high = moments.length - 1; low < high;) {
      const middle = (low + high) >> 1;
      if (moments[middle] < t) low = middle + 1;
      else high = middle;
    }
    return low > 0 && t - moments[low - 1] < moments[low] - t ? low - 1 : low;
  };
  const NO_PICTURE = { field: null, pressure: null, wind: null, masks: [], paths: new Map() };
  const state = { index: momentAt(pictured[Math.floor((pictured.length - 1) / 2)]), zoom: 1, ox: 0, oy: 0, playing: false };
  let width = 0, height = 0, chosen = -1, marks = [];

  // The distinct values of an array of numbers, without a set of millions.
  function unique(values) {
    const sorted = values.slice().sort();
    return sorted.filter((v, k) => k === 0 || v !== sorted[k - 1]);
  }

  // ---- decoding ---------------------------------------------------------------------------------------------------
  async function pixels(base64, shape) {
    if (!base64) return null;
    const image = new Image();
    image.src = 'data:image/png;base64,' + base64;
    await image.decode();
    const [h, w] = shape;
    const sheet = Object.assign(document.createElement('canvas'), { width: w, height: h });
    const pen = sheet.getContext('2d', { willReadFrequently: true });
    pen.drawImage(image, 0, 0);
    const rgba = pen.getImageData(0, 0, w, h).data;
    return Uint8Array.from({ length: w * h }, (_, k) => rgba[4 * k]);
  }

  const cache = new Map();
  function load(index) {
    if (!cache.has(index)) {
      if (cache.size > 48) cache.delete(cache.keys().next().value);
      const f = frames[index];
      const wind = [2 * data.windShape[0], data.windShape[1]];
      cache.set(index, Promise.all([
        pixels(f.f, data.shape), pixels(f.p, data.pressureShape), pixels(f.w, wind),
        Promise.all(f.m.map((m) => pixels(m, data.shape))),
      ]).then(([field, pressure, wind, masks]) => ({
        field, pressure, wind, masks: masks.map((m) => m && m.map((v) => Math.round(v / 85))), paths: new Map(),
      })));
    }
    return cache.get(index);
  }

  // ---- outlines ---------------------------------------------------------------------------------------------------
  // Closed outlines of the cells of one class, through the midpoints between cell centres, in cell units.
  function outline(mask, code) {
    const at = (r, c) => r >= 0 && r < rows && (win.global || (c >= 0 && c < cols)) && mask[r * cols + mod(c, cols)] === code;
    const turn = 2 * cols;
    const next = new Map();
    const key = (x, y) => (y + 4) * 4 * turn + (win.global ? mod(x, turn) : x + turn);
    const first = win.global ? 0 : -1;
    for (let r = -1; r < rows; r++) {
      for (let c = first; c < cols; c++) {
        const a = at(r, c), b = at(r, c + 1), d = at(r + 1, c + 1), e = at(r + 1, c);
        const kind = a + 2 * b + 4 * d + 8 * e;
        if (kind === 0 || kind === 15) continue;
        const x = 2 * c + 1, y = 2 * r + 1;
        const T = [x + 1, y], R = [x + 2, y + 1], B = [x + 1, y + 2], L = [x, y + 1];
        const lines = {
          1: [[L, T]], 2: [[T, R]], 3: [[L, R]], 4: [[R, B]], 5: [[L, T], [R, B]], 6: [[T, B]], 7: [[L, B]],
          8: [[B, L]], 9: [[B, T]], 10: [[T, R], [B, L]], 11: [[B, R]], 12: [[R, L]], 13: [[R, T]], 14: [[T, L]],
        }[kind];
        for (const [from, to] of lines) next.set(key(...from), [from, to]);
      }
    }
    const path = new Path2D();
    while (next.size) {
      const [start, [from]] = next.entries().next().value;
      const points = [from];
      for (let at = start; next.has(at);) {
        const to = next.get(at)[1];
        next.delete(at);
        let x = to[0];
        const last = points[points.length - 1][0];
        while (win.global && x - last > cols) x -= turn;
        while (win.global && last - x > cols) x += turn;
        points.push([x, to[1]]);
        at = key(...to);
      }
      points.pop();
      // Smoothed by less than half a cell: curves through the midpoints of the sides.
      const middle = (k) => {
        const p = points[k % points.length], q = points[(k + 1) % points.length];
        return [(p[0] + q[0]) / 4, (p[1] + q[1]) / 4];
      };
      path.moveTo(...middle(0));
      for (let k = 1; k <= points.length; k++) {
        const p = points[k % points.length];
        path.quadraticCurveTo(p[0] / 2, p[1] / 2, ...middle(k));
      }
      path.closePath();
    }
    return path;
  }

  function outlineOf(frame, source, code) {
    const name = source + ':' + code;
    if (!frame.paths.has(name)) frame.paths.set(name, outline(frame.masks[source], code));
    return frame.paths.get(name);
  }

  // The value of a picture's level between low and high; level 0 is missing.
  const valueOf = (level, low, high) => (level ? low + (high - low) * (level - 1) / 254 : NaN);

  // Isolines of a field given as levels, in cell units; skips cells with a missing corner.
  function isolines(levels, [h, w], low, high, step) {
    const value = new Float32Array(h * w);
    const get = (r, c) => levels[clamp(r, 0, h - 1) * w + (win.global ? mod(c, w) : clamp(c, 0, w - 1))];
    for (let r = 0; r < h; r++) {
      for (let c = 0; c < w; c++) {
        const own = get(r, c);
        let sum = 4 * own, weight = 4;
        for (const [dr, dc, k] of [[0, 1, 2], [0, -1, 2], [1, 0, 2], [-1, 0, 2], [1, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]]) {
          const near = get(r + dr, c + dc);
          sum += k * near;
          weight += near ? k : 0;
        }
        value[r * w + c] = own ? valueOf(sum / weight, low, high) : NaN;
      }
    }
    const path = new Path2D();
    const lastColumn = win.global ? w : w - 1;
    for (let r = 0; r < h - 1; r++) {
      for (let c = 0; c < lastColumn; c++) {
        const v = [value[r * w + c], value[r * w + (c + 1) % w], value[(r + 1) * w + (c + 1) % w], value[(r + 1) * w + c]];
        if (v.some(Number.isNaN)) continue;
        const min = Math.min(...v), max = Math.max(...v);
        for (let level = Math.ceil(min / step) * step; level < max; level += step) {
          const cuts = [];
          const corner = [[c, r], [c + 1, r], [c + 1, r + 1], [c, r + 1]];
          for (let k = 0; k < 4; k++) {
            const p = v[k], q = v[(k + 1) % 4];
            if ((p < level) !== (q < level)) {
              const t = (level - p) / (q - p), a = corner[k], b = corner[(k + 1) % 4];
              cuts.push([a[0] + t * (b[0] - a[0]) + 0.5, a[1] + t * (b[1] - a[1]) + 0.5]);
            }
          }
          for (let k = 0; k + 1 < cuts.length; k += 2) {
            path.moveTo(...cuts[k]);
            path.lineTo(...cuts[k + 1]);
          }
        }
      }
    }
    return path;
  }

  // ---- coordinates ------------------------------------------------------------------------------------------------
  const left = () => (win.global ? centre - 180 : win.west);
  let centre = win.centre;
  const spanLat = win.north - win.south;
  const X = (lon) => (mod(lon - left(), 360) / win.span - state.ox) * width * state.zoom;
  const Y = (lat) => ((win.north - lat) / spanLat - state.oy) * height * state.zoom;
  const place = (x, y) => [
    left() + (x / (width * state.zoom) + state.ox) * win.span,
    win.north - (y / (height * state.zoom) + state.oy) * spanLat,
  ];

  // Transforms from cells of an h x w picture to the screen. On a global map there is one for every turn that may be
  // visible, because an outline across the picture's seam continues beyond either edge.
  function matrices(h, w) {
    const sx = width * state.zoom / w, sy = height * state.zoom / h;
    const x0 = (mod(win.west - left(), 360) / win.span - state.ox) * width * state.zoom;
    const y0 = -state.oy * height * state.zoom;
    const turns = win.global ? [1, 0, -1, -2] : [0];
    return turns.map((turn) => new DOMMatrix([sx, 0, 0, sy, x0 + turn * width * state.zoom, y0]));
  }

  function placed(path, list) {
    const out = new Path2D();
    for (const m of list) out.addPath(path, m);
    return out;
  }

  // ---- drawing ----------------------------------------------------------------------------------------------------
  const sheet = Object.assign(document.createElement('canvas'), { width: cols, height: rows });
  const pen = sheet.getContext('2d');
  const tables = {};
  for (const [name, text] of Object.entries(data.colours)) {
    tables[name] = Uint8Array.from({ length: 768 }, (_, k) => parseInt(text.substr(2 * k, 2), 16));
  }
  const shores = new Path2D($('shores').getAttribute('d'));
  const land = new Path2D($('land').getAttribute('d'));

  function drawSheet(rgba, smooth) {
    pen.putImageData(new ImageData(rgba, cols, rows), 0, 0);
    ctx.imageSmoothingEnabled = smooth;
    ctx.imageSmoothingQuality = 'high';
    for (const m of matrices(rows, cols)) ctx.drawImage(sheet, m.e - 0.3, m.f, m.a * cols + 0.6, m.d * rows);
  }

  function drawField(frame, grey) {
    const table = tables[$('colours').value];
    const rgba = new Uint8ClampedArray(4 * rows * cols);
    for (let k = 0; k < rows * cols; k++) {
      // Missing values stay dark.
      if (!frame.field[k]) continue;
      const v = 3 * frame.field[k];
      const [r, g, b] = [table[v], table[v + 1], table[v + 2]];
      const l = 0.55 * (0.3 * r + 0.59 * g + 0.11 * b);
      rgba.set(grey ? [l, l + 4, l + 8, 255] : [r, g, b, 255], 4 * k);
    }
    drawSheet(rgba, true);
  }

  function drawDifference(frame, a, b) {
    const first = frame.masks[a], second = frame.masks[b];
    if (!first || !second) return;
    const rgba = new Uint8ClampedArray(4 * rows * cols);
    for (let k = 0; k < rows * cols; k++) {
      const p = first[k], q = second[k];
      const kind = p === q ? (p ? 1 : 0) : q === 0 ? 2 : p === 0 ? 3 : 4;
      if (kind) rgba.set(DIFFERENCE[kind], 4 * k);
    }
    drawSheet(rgba, false);
  }

  function strokeCased(path, colour, thick, dash, casing = CASING) {
    ctx.lineJoin = ctx.lineCap = 'round';
    ctx.setLineDash([]);
    ctx.strokeStyle = casing;
    ctx.lineWidth = thick + 1.8;
    ctx.stroke(path);
    ctx.setLineDash(dash);
    ctx.strokeStyle = colour;
    ctx.lineWidth = thick;
    ctx.stroke(path);
    ctx.setLineDash([]);
  }

  const visible = (source) => $('layer-' + source)?.checked;

  function drawMasks(frame) {
    const list = matrices(rows, cols);
    const thick = width < 600 ? 1.2 : 1.6;
    data.sources.forEach((source, s) => {
      if (!visible(s) || !frame.masks[s]) return;
      for (const code of [2, 1]) {
        const path = placed(outlineOf(frame, s, code), list);
        if (source.kind === 'heuristic' || data.sources.length === 1) {
          ctx.fillStyle = CLASS_COLOURS[code] + '40';
          ctx.fill(path, 'evenodd');
        }
        strokeCased(path, CLASS_COLOURS[code], source.kind === 'truth' ? thick + 0.6 : thick, DASHES[source.kind]);
      }
    });
  }

  // ---- events -----------------------------------------------------------------------------------------------------
  // Whether the layer of a finder is on: sources of masks by their index on the map, boxes by their own checkbox.
  function seen(finder) {
    if (store.head.finders[finder].boxes) return $('layer-boxes-' + finder)?.checked;
    const place = data.sources.findIndex((s) => s.finder === finder);
    return place < 0 || visible(place);
  }

  // A line that continues across the map's seam.
  function trace(points) {
    const path = new Path2D(), turn = width * state.zoom * 360 / win.span;
    let before = null;
    for (const [lon, lat] of points) {
      const x = X(lon), y = Y(lat);
      if (before === null) path.moveTo(x, y);
      else if (Math.abs(x - before[0]) <= turn / 2) path.lineTo(x, y);
      else {
        const side = Math.sign(before[0] - x) * turn;
        path.lineTo(x + side, y);
        path.moveTo(before[0] - side, before[1]);
        path.lineTo(x, y);
      }
      before = [x, y];
    }
    return path;
  }

  function rectangle(at, i) {
    const { w, h } = store.point, path = new Path2D();
    const turn = width * state.zoom * 360 / win.span;
    const across = w[i] / 360 * turn, down = h[i] / spanLat * height * state.zoom;
    const x = X(at.lon - w[i] / 2), y = Y(at.lat + h[i] / 2);
    path.rect(x, y, across, down);
    // Repeat it one turn to the left, for the seam or the western edge of a regional map.
    path.rect(x - turn, y, across, down);
    return path;
  }

  function drawEvents(now) {
    marks = [];
    if (!store) return;
    const { row, point, head } = store;
    const trails = $('layer-tracks')?.checked, back = now - data.trailHours / store.hours(1);
    const finders = head.finders.map((_, f) => f);
    // Only draw the trails of one finder; those of others would overlap.
    const trailed = finders.find((f) => !head.finders[f].boxes && seen(f)) ?? finders.find((f) => seen(f));
    for (let k = 0; k < store.n; k++) {
      if (row.start[k] > now || row.end[k] < now || !seen(row.finder[k])) continue;
      const at = store.where(k, now);
      if (!at) continue;
      const kind = head.kinds[row.kind[k]], cyclone = !store.isRiver(k), box = head.finders[row.finder[k]].boxes;
      const [x, y] = [X(at.lon), Y(at.lat)];
      if (box) {
        if (at.exact) strokeCased(rectangle(at, at.i), kind.colour, 1.6, DASHES[head.finders[row.finder[k]].kind]);
        marks.push({ k, x, y, i: at.exact ? at.i : -1 });
        if (row.finder[k] !== trailed || !trails) continue;
      } else if (row.finder[k] !== trailed || !trails) continue;
      else marks.push({ k, x, y, i: -1 });
      const tail = [];
      for (let i = row.first[k]; i <= at.i; i++) if (point.t[i] >= back) tail.push([point.lon[i], point.lat[i]]);
      strokeCased(trace([...tail, [at.lon, at.lat]]), cyclone ? '#ffffff' : 'rgba(255,226,160,0.75)', cyclone ? 1.6 : 0.8, [], cyclone ? CASING : 'rgba(8,14,20,0.3)');
      const dot = new Path2D();
      dot.arc(x, y, cyclone ? 3.2 : 2.2, 0, 7);
      strokeCased(dot, '#ffffff', 1.2, []);
      ctx.fillStyle = kind.colour;
      ctx.fill(dot);
    }
    drawChosen(now);
  }

  // The whole track of the selected event, and a ring at its position.
  function drawChosen(now) {
    if (chosen < 0) return;
    const { row, point, head } = store;
    const track = Array.from({ length: row.count[chosen] }, (_, i) => [point.lon[row.first[chosen] + i], point.lat[row.first[chosen] + i]]);
    strokeCased(trace(track), head.kinds[row.kind[chosen]].colour, 2, []);
    const at = store.where(chosen, now);
    if (!at) return;
    const ring = new Path2D();
    ring.arc(X(at.lon), Y(at.lat), 11, 0, 7);
    strokeCased(ring, '#ffffff', 2, []);
  }

  // The nearest event within reach of a position on the screen.
  function pick(x, y, reach) {
    const turn = width * state.zoom * 360 / win.span;
    let best = null;
    for (const mark of marks) {
      const far = Math.hypot(mark.x - x, mark.y - y);
      if (far <= reach && (!best || far < best.far)) best = { far, k: mark.k };
      // Positions inside a box count as near.
      if (mark.i >= 0 && !best) {
        const { w, h } = store.point;
        const across = w[mark.i] / 360 * turn, down = h[mark.i] / spanLat * height * state.zoom;
        // The part of a box beyond the seam is one turn away from its centre.
        const inside = [-turn, 0, turn].some((dx) => Math.abs(mark.x + dx - x) < across / 2);
        if (inside && Math.abs(mark.y - y) < down / 2) best = { far: reach, k: mark.k };
      }
    }
    return best?.k ?? -1;
  }

  squall.showOnMap = (k, t) => {
    chosen = k;
    const finder = store.row.finder[k], boxes = $('layer-boxes-' + finder);
    if (boxes) boxes.checked = true;
    setPlaying(false);
    show(momentAt(t));
    canvas.scrollIntoView({ block: 'center' });
    canvas.focus({ preventScroll: true });
  };

  function drawPressure(frame) {
    if (!$('layer-pressure')?.checked || !frame.pressure) return;
    const [low, high] = data.pressureRange;
    frame.lines ??= isolines(frame.pressure, data.pressureShape, low, high, 8);
    ctx.strokeStyle = 'rgba(255,255,255,0.75)';
    ctx.lineWidth = 0.8;
    ctx.stroke(placed(frame.lines, matrices(...data.pressureShape)));
  }

  function drawWind(frame) {
    if (!$('layer-wind')?.checked || !frame.wind) return;
    const [h, w] = data.windShape, [low, high] = data.windRange;
    const speed = (k) => low + (high - low) * frame.wind[k] / 255;
    const skip = Math.max(1, Math.round(14 * w / (width * state.zoom)));
    const cell = width * state.zoom / w * skip;
    ctx.strokeStyle = 'rgba(255,255,255,0.85)';
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (let r = skip >> 1; r < h; r += skip) {
      for (let c = 0; c < w; c += skip) {
        const u = speed(r * w + c), v = speed(h * w + r * w + c), s = Math.hypot(u, v);
        if (s < 3) continue;
        const x = X(win.west + (c + 0.5) * win.span / w), y = Y(win.north - (r + 0.5) * spanLat / h);
        const k = cell * Math.min(1.1, 0.25 + s / 30) / s, dx = u * k, dy = -v * k;
        ctx.moveTo(x, y);
        ctx.lineTo(x + dx, y + dy);
        for (const a of [2.6, -2.6]) {
          ctx.moveTo(x + dx, y + dy);
          ctx.lineTo(x + dx + 0.3 * (dx * Math.cos(a) - dy * Math.sin(a)), y + dy + 0.3 * (dx * Math.sin(a) + dy * Math.cos(a)));
        }
      }
    }
    ctx.stroke();
  }

  // Only land, if there is no field.
  function drawLand() {
    const k = width * state.zoom / win.span / 10, ky = height * state.zoom / spanLat / 10;
    ctx.fillStyle = '#1d2b38';
    for (const turn of [-1, 0, 1, 2]) {
      const path = new Path2D(), x = ((turn * 360 - left()) / win.span - state.ox) * width * state.zoom;
      path.addPath(land, new DOMMatrix([k, 0, 0, ky, x, Y(90)]));
      ctx.fill(path, 'evenodd');
    }
  }

  function drawShores() {
    const k = width * state.zoom / win.span / 10, ky = height * state.zoom / spanLat / 10;
    const path = new Path2D();
    for (const turn of [-1, 0, 1, 2]) {
      const x = ((turn * 360 - left()) / win.span - state.ox) * width * state.zoom;
      path.addPath(shores, new DOMMatrix([k, 0, 0, ky, x, Y(90)]));
    }
    ctx.strokeStyle = 'rgba(6,10,14,0.55)';
    ctx.lineWidth = 1.8;
    ctx.stroke(path);
    ctx.strokeStyle = 'rgba(255,255,255,0.7)';
    ctx.lineWidth = 0.8;
    ctx.stroke(path);
  }

  function drawGraticule() {
    const across = win.span / state.zoom, apart = [60, 30, 20, 10, 5, 2].find((d) => across / d >= 5) || 1;
    ctx.font = '11px system-ui, sans-serif';
    ctx.fillStyle = 'rgba(255,255,255,0.8)';
    ctx.strokeStyle = 'rgba(255,255,255,0.14)';
    ctx.shadowColor = '#0a1420';
    ctx.shadowBlur = 3;
    ctx.lineWidth = 1;
    ctx.beginPath();
    const [west, north] = place(0, 0), [east, south] = place(width, height);
    for (let lon = Math.ceil(west / apart) * apart; lon < east; lon += apart) {
      const x = (lon - west) / (east - west) * width, signed = mod(lon + 180, 360) - 180;
      if (x < 24 || x > width - 24) continue;
      ctx.moveTo(x, 0);
      ctx.lineTo(x, height);
      ctx.textAlign = 'center';
      ctx.fillText(`${Math.abs(signed)}°${signed === 0 || signed === -180 ? '' : signed < 0 ? 'W' : 'E'}`, x, height - 6);
    }
    const rise = Math.min(30, apart);
    for (let lat = Math.ceil(south / rise) * rise; lat < north; lat += rise) {
      const y = (north - lat) / (north - south) * height;
      if (y < 44 || y > height - 30) continue;
      ctx.moveTo(0, y);
      ctx.lineTo(width, y);
      ctx.textAlign = 'left';
      ctx.fillText(`${Math.abs(lat)}°${lat === 0 ? '' : lat < 0 ? 'S' : 'N'}`, 6, y - 4);
    }
    ctx.shadowBlur = 0;
    ctx.stroke();
  }

  let current = null;
  function draw() {
    const frame = current;
    if (!frame || !width) return;
    const scale = canvas.width / width;
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.fillStyle = '#0a1420';
    ctx.fillRect(0, 0, width, height);
    const mode = $('mode')?.value || 'layers';
    if (frame.field) drawField(frame, mode !== 'layers');
    else drawLand();
    drawGraticule();
    drawShores();
    drawPressure(frame);
    drawWind(frame);
    if (mode === 'layers') drawMasks(frame);
    else drawDifference(frame, ...mode.split('-').map(Number));
    drawEvents(moments[state.index]);
  }

  // ---- text -------------------------------------------------------------------------------------------------------
  const counted = (n, word) => (n === null ? `${word}s not looked for` : n === 0 ? `no ${word}s` : n === 1 ? `1 ${word}` : `${n} ${word}s`);
  const timeText = (index) => (pictureAt.has(moments[index]) ? frames[pictureAt.get(moments[index])].t : store.moment(moments[index]));
  function describe() {
    const frame = frames[pictureAt.get(moments[state.index])], text = timeText(state.index);
    const parts = frame ? data.sources
      .map((s, k) => frame.n[k] && `${s.label}: ${counted(frame.n[k][0], 'cyclone')}, ${counted(frame.n[k][1], 'river')}`)
      .filter(Boolean) : ['No picture was kept of this time: events alone'];
    $('stamp').textContent = text;
    $('position').textContent = `${squall.whole(state.index + 1)} of ${squall.whole(moments.length)}`;
    $('counts').textContent = parts.length ? `${text}. ${parts.join('; ')}.` : '';
    $('time').value = state.index;
    $('time').setAttribute('aria-valuetext', text);
  }

  let wanted = 0;
  const picture = (index) => pictureAt.get(moments[index]);
  async function show(index) {
    state.index = mod(index, moments.length);
    describe();
    const ticket = ++wanted;
    const frame = picture(state.index) === undefined ? NO_PICTURE : await load(picture(state.index));
    if (ticket !== wanted) return;
    current = frame;
    draw();
    if (state.playing) load(pictureAfter());
  }
  // The next picture after the displayed time.
  function pictureAfter() {
    const next = pictured.findIndex((t) => t > moments[state.index]);
    return next < 0 ? 0 : next;
  }

  // ---- controls ---------------------------------------------------------------------------------------------------
  const pace = matchMedia('(prefers-reduced-motion: reduce)').matches ? 700 : 140;
  // Whether the selected event is active: if so, every time is played, otherwise only pictures.
  function following() {
    const now = moments[state.index];
    return chosen >= 0 && now >= store.row.start[chosen] && now < store.row.end[chosen];
  }
  let run = 0;
  async function play() {
    // The previous run may still be in its pause.
    const own = ++run;
    while (state.playing && own === run) {
      const pause = new Promise((done) => setTimeout(done, pace));
      await show(following() ? state.index + 1 : momentAt(pictured[pictureAfter()]));
      await pause;
    }
  }
  function setPlaying(on) {
    state.playing = on && pictured.length > 1;
    $('play').textContent = state.playing ? '❚❚' : '▶';
    $('play').setAttribute('aria-pressed', state.playing);
    $('play').setAttribute('aria-label', state.playing ? 'Pause' : 'Play');
    // Announced to screen readers while stepping, but not several times per second while playing.
    $('position').setAttribute('aria-live', state.playing ? 'off' : 'polite');
    if (state.playing) play();
  }
  function step(by) {
    setPlaying(false);
    show(state.index + by);
  }
  function zoom(factor, x = width / 2, y = height / 2) {
    const before = [x / (width * state.zoom) + state.ox, y / (height * state.zoom) + state.oy];
    state.zoom = clamp(state.zoom * factor, 1, 10);
    state.ox = before[0] - x / (width * state.zoom);
    state.oy = before[1] - y / (height * state.zoom);
    pan(0, 0);
  }
  function pan(dx, dy) {
    const room = 1 - 1 / state.zoom;
    state.ox = clamp(state.ox - dx / (width * state.zoom), 0, room);
    state.oy = clamp(state.oy - dy / (height * state.zoom), 0, room);
    canvas.style.touchAction = state.zoom > 1 ? 'none' : 'pan-y';
    canvas.classList.toggle('zoomed', state.zoom > 1);
    draw();
  }

  $('play').onclick = () => setPlaying(!state.playing);
  $('back').onclick = () => step(-1);
  $('next').onclick = () => step(1);
  $('time').oninput = (e) => { setPlaying(false); show(Number(e.target.value)); };
  $('zoom-in').onclick = () => zoom(1.6);
  $('zoom-out').onclick = () => zoom(1 / 1.6);
  $('zoom-reset').onclick = () => zoom(0);
  $('time').max = moments.length - 1;
  if (moments.length < 2) for (const id of ['play', 'back', 'next', 'time']) $(id).disabled = true;
  if (frames.length < 2) $('play').disabled = true;
  canvas.onkeydown = (e) => {
    const way = e.shiftKey && { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key];
    const act = way ? () => pan(way[0] * width / 5, way[1] * height / 5) : {
      ArrowLeft: () => step(-1), ArrowRight: () => step(1), ' ': () => setPlaying(!state.playing),
      '+': () => zoom(1.6), '=': () => zoom(1.6), '-': () => zoom(1 / 1.6), 0: () => zoom(0),
      Home: () => step(-state.index), End: () => step(moments.length - 1 - state.index),
      PageUp: () => step(-10), PageDown: () => step(10), Escape: forget,
    }[e.key];
    if (act && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      act();
    }
  };
  for (const input of document.querySelectorAll('.layers input')) input.onchange = draw;

  function paintBar() {
    const bar = $('field-bar');
    if (!bar) return;
    const table = tables[$('colours').value];
    const stops = Array.from({ length: 17 }, (_, k) => {
      const v = 3 * Math.min(255, 16 * k);
      return `rgb(${table[v]},${table[v + 1]},${table[v + 2]})`;
    });
    bar.style.background = `linear-gradient(90deg,${stops})`;
  }
  $('colours').onchange = () => { paintBar(); draw(); };
  function setMode() {
    const mode = $('mode').value, layers = mode === 'layers';
    $('class-legend').hidden = !layers;
    $('difference-legend').hidden = layers;
    data.sources.forEach((_, k) => { $('layer-' + k).disabled = !layers; });
    if (!layers) {
      const [a, b] = mode.split('-').map((k) => data.sources[k].label);
      $('first-name').textContent = 'only ' + a;
      $('second-name').textContent = 'only ' + b;
    }
    draw();
  }
  if ($('mode')) {
    $('mode').onchange = setMode;
    // Browsers silently restore the selection when they return to a page.
    setMode();
  }
  if ($('centre')) {
    $('centre').value = [180, 300, 80].includes(centre) ? centre : 180;
    $('centre').onchange = () => { centre = Number($('centre').value); draw(); };
  }

  // ---- pointer ----------------------------------------------------------------------------------------------------
  const fingers = new Map();
  const here = (e) => {
    const box = canvas.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  };
  let pressed = null;
  canvas.onclick = (e) => {
    const at = here(e), still = pressed && Math.hypot(at[0] - pressed[0], at[1] - pressed[1]) < 6;
    const k = still ? pick(...at, matchMedia('(pointer: coarse)').matches ? 26 : 16) : -1;
    if (k >= 0 && squall.openLife) squall.openLife(k);
    else if (still && chosen >= 0) forget();
  };
  // Deselects the event.
  function forget() {
    chosen = -1;
    draw();
  }
  canvas.onpointerdown = (e) => {
    pressed = here(e);
    fingers.set(e.pointerId, here(e));
    if (state.zoom > 1 || fingers.size > 1) canvas.setPointerCapture(e.pointerId);
  };
  canvas.onpointerup = canvas.onpointercancel = (e) => fingers.delete(e.pointerId);
  canvas.onpointerleave = (e) => { fingers.delete(e.pointerId); $('tip').hidden = true; };
  canvas.onpointermove = (e) => {
    const now = here(e), before = fingers.get(e.pointerId);
    if (before && fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== e.pointerId)[1];
      const far = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
      zoom(far(now) / Math.max(1, far(before)), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else if (before && state.zoom > 1) pan(now[0] - before[0], now[1] - before[1]);
    if (before) fingers.set(e.pointerId, now);
    if (e.pointerType !== 'touch' || !before) tell(now);
  };
  canvas.addEventListener('wheel', (e) => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    zoom(Math.exp(-e.deltaY / 200), ...here(e));
  }, { passive: false });

  function tell([x, y]) {
    const tip = $('tip');
    if (!current) return;
    const [lon, lat] = place(x, y);
    const c = Math.floor(mod(lon - win.west, 360) / win.span * cols);
    const r = Math.floor((win.north - lat) / spanLat * rows);
    if (c < 0 || c >= cols || r < 0 || r >= rows) { tip.hidden = true; return; }
    const k = r * cols + c;
    const parts = [squall.place(lat, lon)];
    if (current.field) {
      const level = current.field[k], v = valueOf(level, data.field.low, data.field.high);
      // Pictures have 254 steps between the ends: use about as many decimals as distinguish the steps.
      const digits = clamp(-Math.floor(Math.log10((data.field.high - data.field.low) / 300)), 0, 12);
      const said = level ? `${level === 255 ? '≥ ' : ''}${v.toFixed(digits)} ${data.field.unit}` : 'no data';
      parts.push(`${data.field.name} ${said}`);
    }
    data.sources.forEach((s, n) => {
      const code = current.masks[n]?.[k];
      if (code) parts.push(`${s.label}: ${code === 1 ? 'cyclone' : 'river'}`);
    });
    const near = store ? pick(x, y, 16) : -1;
    canvas.style.cursor = near >= 0 ? 'pointer' : '';
    if (near >= 0) parts.unshift(store.name(near));
    tip.textContent = parts.join(' · ');
    tip.hidden = false;
  }

  // ---- size -------------------------------------------------------------------------------------------------------
  function resize() {
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    const scale = Math.min(3, window.devicePixelRatio || 1);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    draw();
  }
  canvas.style.aspectRatio = `${win.span} / ${spanLat}`;
  // A tall window is no taller than the screen, unless that would leave no room for its buttons.
  canvas.parentElement.style.maxWidth = `max(20rem, 85vh * ${win.span / spanLat})`;
  new ResizeObserver(resize).observe(canvas);
  paintBar();
  resize();
  show(state.index);
})();
