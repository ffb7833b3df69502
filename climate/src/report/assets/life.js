// The life of one event: its track on a map, and charts of its properties.
squall.store.then((store) => {
  const { $, clamp, number, escape } = squall;
  const dialog = $('life');
  if (!store || !dialog) return;
  const { row, point, head } = store;
  const canvas = $('life-map');
  const ctx = canvas.getContext('2d');
  const land = new Path2D($('land').getAttribute('d'));
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [460, 190, 58, 12, 28, 34];
  let shown = -1, list = [], charts = [], now = 0;

  const points = (k) => Array.from({ length: row.count[k] }, (_, i) => row.first[k] + i);
  const colourOf = (k, i) => {
    if (!store.isTropical(k) || head.finders[row.finder[k]].confidence) return head.kinds[row.kind[k]].colour;
    const { limits, colours } = head.categories;
    // The last colour is for unknown winds.
    return colours[Number.isNaN(point.a[i]) ? limits.length + 1 : limits.filter((low) => point.a[i] >= low).length];
  };

  // Speed of the centre since the previous point, m/s.
  function speed(i, before) {
    const rad = Math.PI / 180, dLat = (point.lat[i] - point.lat[before]) * rad, dLon = (point.lon[i] - point.lon[before]) * rad;
    const a = Math.sin(dLat / 2) ** 2 + Math.cos(point.lat[i] * rad) * Math.cos(point.lat[before] * rad) * Math.sin(dLon / 2) ** 2;
    return 2 * 6371220 * Math.asin(Math.min(1, Math.sqrt(a))) / (3600 * store.hours(point.t[i] - point.t[before]));
  }

  // ---- facts ------------------------------------------------------------------------------------------------------
  const ORIGINS = ['', 'formed as a new event', 'split from another', 'present when the data begin'];
  const FATES = ['', 'dissipated', 'merged into another', 'present when the data end'];
  function facts(k) {
    const value = (v, text) => (Number.isNaN(v) ? null : text);
    const river = store.isRiver(k);
    const other = (id) => (Number.isNaN(id) ? '' : ` (${id})`);
    const land = Number.isNaN(row.landAt[k])
      ? row.landfalls[k] === 0 && 'no landfall'
      : `landfall ${store.moment(row.start[k] + row.landAt[k])} at ${squall.place(row.landLat[k], row.landLon[k])}`
        + (Number.isNaN(row.landWind[k]) ? '' : ` with ${number(row.landWind[k], 3, 1)} m s⁻¹`)
        + (row.landfalls[k] > 1 ? `, ${row.landfalls[k]} in all` : '');
    return [
      head.finders.length > 1 && `found by ${head.finders[row.finder[k]].label}`,
      store.basin(k),
      `${store.moment(row.start[k])}${row.end[k] > row.start[k] ? ` to ${store.moment(row.end[k])} (${squall.duration(store.hours(row.end[k] - row.start[k]))})` : ''}`,
      value(row.category[k], store.grade(k)),
      value(row.wind[k], `wind up to ${number(row.wind[k], 3, 1)} m s⁻¹`),
      value(row.pressure[k], `pressure down to ${number(row.pressure[k], 4, 1)} hPa`),
      river && value(row.water[k], `water up to ${number(row.water[k], 3, 1)} kg m⁻²`),
      river && value(row.length[k], `up to ${number(row.length[k], 3, 0)} km long`),
      value(row.confidence[k], `confidence up to ${number(row.confidence[k], 3, 0)} %`),
      value(row.area[k], `up to ${number(row.area[k] / 1000, 3, 3)} million km²`),
      value(row.path[k], `path of ${number(row.path[k], 3, 0)} km`),
      land,
      ORIGINS[row.origin[k]] && ORIGINS[row.origin[k]] + other(row.parent[k]),
      FATES[row.fate[k]] && FATES[row.fate[k]] + other(row.merged[k]),
    ].filter(Boolean);
  }

  // ---- charts -----------------------------------------------------------------------------------------------------
  function chart(k, title, unit, values, colour, marks = []) {
    const all = points(k), known = values.filter(Number.isFinite);
    if (!known.length || all.length < 2) return null;
    const [from, to] = [point.t[all[0]], point.t[all[all.length - 1]]];
    const ticks = squall.ticks(Math.min(...known), Math.max(...known), 4);
    const [low, high] = [ticks[0], ticks[ticks.length - 1]];
    const x = (t) => LEFT + (t - from) / (to - from) * (WIDTH - LEFT - RIGHT);
    const y = (v) => HEIGHT - BOTTOM - (v - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    const step = ticks[1] - ticks[0], decimals = [0, 1, 2, 3, 4, 5].find((d) => Math.abs(step * 10 ** d - Math.round(step * 10 ** d)) < 1e-6) ?? 6;
    let body = ticks.map((v) => `<line class="${v === low ? 'axis' : 'grid'}" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(v)}" y2="${y(v)}"/><text class="e" x="${LEFT - 6}" y="${y(v) + 4}">${v.toFixed(decimals).replace('-', '−')}</text>`).join('');
    body += `<text class="h" x="4" y="12">${unit}</text>`;
    let free = Infinity, words = '';
    for (const [value, word] of marks) {
      if (value <= low || value >= high) continue;
      // Label every line that has enough room.
      const room = free - y(value) > 15;
      if (room) free = y(value);
      body += `<line class="mark" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}"/>`;
      // Above the curve, on a ground of its own: letters are at most 6 wide.
      if (room) words += `<rect style="fill:var(--card);fill-opacity:.8" x="${WIDTH - RIGHT - 6 * word.length}" y="${y(value) - 12}" width="${6 * word.length}" height="11"/><text class="e s" x="${WIDTH - RIGHT}" y="${y(value) - 3}">${word}</text>`;
    }
    const days = store.hours(to - from) / 24, apart = [1, 2, 5, 10, 20, 50, 100].find((d) => days / d <= 5) || 365;
    for (let t = store.midnight(from); t <= to; t = store.midnight(t + ((apart - 1) * 24 + 1 / 3600) / store.hours(1))) {
      const d = store.date(t);
      body += `<line class="axis" x1="${x(t)}" x2="${x(t)}" y1="${HEIGHT - BOTTOM}" y2="${HEIGHT - BOTTOM + 4}"/>`;
      if (x(t) < WIDTH - 24) body += `<text class="m" x="${x(t)}" y="${HEIGHT - BOTTOM + 17}">${d.day} ${squall.MONTHS[d.month - 1]}</text>`;
    }
    let path = '', drawing = false;
    values.forEach((v, i) => {
      if (Number.isFinite(v)) path += `${drawing ? 'L' : 'M'}${x(point.t[all[i]]).toFixed(1)} ${y(v).toFixed(1)}`;
      drawing = Number.isFinite(v);
    });
    // A line through a single point is invisible, so draw a dot.
    all.forEach((i, index) => {
      const [before, own, after] = [-1, 0, 1].map((by) => Number.isFinite(values[index + by]));
      if (own && !before && !after) body += `<circle cx="${x(point.t[i])}" cy="${y(values[index])}" r="2" style="fill:${colour}"/>`;
    });
    body += `<path class="line" style="stroke:${colour};fill:none" d="${path}"/>${words}<line class="cursor" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/>`;
    const figure = document.createElement('figure');
    figure.className = 'chart';
    // Three digits would turn 1004 hPa into 1000.
    const digits = unit === 'hPa' ? 4 : 3;
    const said = `${title}: from ${number(Math.min(...known), digits)} to ${number(Math.max(...known), digits)} ${unit}`;
    figure.innerHTML = `<figcaption>${title}</figcaption><svg class="plot" role="img" viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-label="${escape(said)}">${body}</svg>`;
    saveButtons([figure]);
    const svg = figure.querySelector('svg'), cursor = svg.querySelector('.cursor');
    svg.onpointerdown = svg.onpointermove = (e) => {
      const box = svg.getBoundingClientRect(), t = from + ((e.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * (to - from);
      const nearest = all.reduce((best, i, index) => (Math.abs(point.t[i] - t) < Math.abs(point.t[all[best]] - t) ? index : best), 0);
      if (e.pointerType !== 'touch' || e.type === 'pointerdown') tell(nearest);
    };
    return { figure, at: (t) => { cursor.setAttribute('x1', x(t)); cursor.setAttribute('x2', x(t)); } };
  }

  const quantities = (k) => {
    const all = points(k), of = (column) => all.map((i) => column[i]);
    const speeds = all.map((i, index) => (index ? speed(i, all[index - 1]) : NaN));
    const scale = head.categories.limits.map((low, c) => [low, c ? `category ${c}` : 'tropical storm']);
    const area = ['Area', 'million km²', of(point.area).map((v) => v / 1e6)];
    const fast = ['Speed of the centre', 'm s⁻¹', speeds];
    if (head.finders[row.finder[k]].confidence) return [['Confidence', '%', of(point.a)], area, fast];
    if (store.isRiver(k)) return [['Water', 'kg m⁻²', of(point.a)], ['Length', 'km', of(point.b)], area, fast];
    return [['Wind', 'm s⁻¹', of(point.a), store.isTropical(k) ? scale : []], ['Pressure', 'hPa', of(point.b)], area, fast];
  };

  // ---- the map of the track ---------------------------------------------------------------------------------------
  function drawMap() {
    const k = shown, all = points(k);
    const width = canvas.clientWidth, height = canvas.clientHeight, scale = Math.min(3, devicePixelRatio || 1);
    if (!width || !all.length) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const lons = all.map((i) => point.lon[i]), lats = all.map((i) => point.lat[i]);
    const half = (of) => all.map((i) => (Number.isNaN(of[i]) ? 0 : of[i] / 2));
    const [wide, tall] = [half(point.w), half(point.h)];
    let [west, east] = [Math.min(...lons.map((v, i) => v - wide[i])), Math.max(...lons.map((v, i) => v + wide[i]))];
    let [south, north] = [Math.min(...lats.map((v, i) => v - tall[i])), Math.max(...lats.map((v, i) => v + tall[i]))];
    // Degrees per pixel: leave room around the track, and show at least 40 degrees over the width.
    const per = Math.max((east - west) * 1.3 / width, (north - south) * 1.35 / height, 40 / width);
    const [x0, y0] = [(west + east) / 2 - per * width / 2, clamp((south + north) / 2 + per * height / 2, Math.min(90, per * height - 90), 90)];
    const X = (lon) => (lon - x0) / per, Y = (lat) => (y0 - lat) / per;
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.fillStyle = '#101c28';
    ctx.fillRect(0, 0, width, height);
    const ground = new Path2D();
    for (let turn = Math.floor((x0 - 180) / 360); turn * 360 - 180 < x0 + per * width; turn++) {
      ground.addPath(land, new DOMMatrix([0.1 / per, 0, 0, 0.1 / per, X(turn * 360), Y(90)]));
    }
    ctx.fillStyle = '#2b3d4e';
    ctx.fill(ground, 'evenodd');
    ctx.strokeStyle = 'rgba(255,255,255,0.14)';
    ctx.fillStyle = 'rgba(255,255,255,0.75)';
    ctx.font = '11px system-ui, sans-serif';
    ctx.lineWidth = 1;
    const apart = [5, 10, 20, 30, 60].find((d) => per * width / d <= 7) || 60;
    for (let lon = Math.ceil(x0 / apart) * apart; X(lon) < width; lon += apart) {
      ctx.strokeRect(X(lon), -1, 0.01, height + 2);
      const signed = squall.mod(lon + 180, 360) - 180;
      ctx.fillText(`${Math.abs(signed)}°${signed === 0 || signed === -180 ? '' : signed < 0 ? 'W' : 'E'}`, X(lon) + 3, height - 5);
    }
    for (let lat = -90; lat <= 90; lat += apart) {
      ctx.strokeRect(-1, Y(lat), width + 2, 0.01);
      if (Y(lat) > 12 && Y(lat) < height - 20) ctx.fillText(`${Math.abs(lat)}°${lat === 0 ? '' : lat < 0 ? 'S' : 'N'}`, 4, Y(lat) - 3);
    }
    ctx.lineCap = ctx.lineJoin = 'round';
    for (const [thick, casing] of [[5, true], [3, false]]) {
      all.slice(1).forEach((i, index) => {
        ctx.strokeStyle = casing ? 'rgba(6,10,14,0.7)' : colourOf(k, i);
        ctx.lineWidth = thick;
        ctx.beginPath();
        ctx.moveTo(X(point.lon[all[index]]), Y(point.lat[all[index]]));
        ctx.lineTo(X(point.lon[i]), Y(point.lat[i]));
        ctx.stroke();
      });
    }
    const dot = (lon, lat, radius, fill, ring) => {
      ctx.beginPath();
      ctx.arc(X(lon), Y(lat), radius, 0, 7);
      ctx.fillStyle = fill;
      ctx.fill();
      ctx.strokeStyle = ring;
      ctx.lineWidth = 1.5;
      ctx.stroke();
    };
    dot(lons[0], lats[0], 3.5, '#fff', '#0a1420');
    if (!Number.isNaN(row.landAt[k])) {
      const near = lons.reduce((best, lon) => (Math.abs(lon - row.landLon[k]) % 360 < Math.abs(best - row.landLon[k]) % 360 ? lon : best));
      const lon = row.landLon[k] + 360 * Math.round((near - row.landLon[k]) / 360);
      ctx.strokeStyle = '#fff';
      ctx.lineWidth = 2;
      ctx.strokeRect(X(lon) - 5, Y(row.landLat[k]) - 5, 10, 10);
    }
    const i = all[now];
    if (!Number.isNaN(point.w[i])) {
      ctx.strokeStyle = head.kinds[row.kind[k]].colour;
      ctx.lineWidth = 2;
      ctx.strokeRect(X(lons[now] - wide[now]), Y(lats[now] + tall[now]), 2 * wide[now] / per, 2 * tall[now] / per);
    }
    dot(lons[now], lats[now], 6, colourOf(k, i), '#fff');
    canvas.setAttribute('aria-label', `Map of the track from ${squall.place(lats[0], lons[0])} to ${squall.place(lats[lats.length - 1], lons[lons.length - 1])}`);
  }

  // ---- the dialog -------------------------------------------------------------------------------------------------
  function tell(index) {
    const all = points(shown);
    if (!all.length) return;
    now = clamp(index, 0, all.length - 1);
    const i = all[now];
    $('life-time').value = now;
    $('life-time').setAttribute('aria-valuetext', store.moment(point.t[i]));
    const river = store.isRiver(shown), sure = head.finders[row.finder[shown]].confidence;
    const names = sure ? [['%']] : river ? [['kg m⁻²'], ['km long']] : [['m s⁻¹'], ['hPa']];
    const said = [point.a[i], point.b[i]].map((v, c) => (Number.isNaN(v) || !names[c] ? null : `${number(v, c ? 4 : 3, sure ? 0 : 1)} ${names[c]}`));
    // Stored with a precision of 1.5 percent.
    const area = Number.isNaN(point.area[i]) ? null : `${number(point.area[i] / 1e6, 2)} million km²`;
    const moved = now ? `${number(speed(i, all[now - 1]), 2)} m s⁻¹ along the path` : null;
    $('life-now').textContent = [store.moment(point.t[i]), squall.place(point.lat[i], point.lon[i]), ...said, area, moved].filter(Boolean).join(' · ');
    charts.forEach((c) => c.at(point.t[i]));
    drawMap();
  }

  function fill(k) {
    shown = k;
    $('life-name').textContent = store.name(k);
    $('life-facts').textContent = facts(k).join(' · ');
    const colour = ['var(--accent)', store.isTropical(k) ? 'var(--cyclone)' : store.isRiver(k) ? 'var(--river)' : 'var(--accent)'];
    charts = quantities(k).map(([title, unit, values, marks], c) => chart(k, title, unit, values, colour[c === 0 ? 1 : 0], marks)).filter(Boolean);
    $('life-charts').replaceChildren(...charts.map((c) => c.figure));
    const count = row.count[k];
    $('life-time').max = Math.max(0, count - 1);
    $('life-time').disabled = count < 2;
    $('life-time').hidden = count < 2;
    canvas.hidden = $('life-show').hidden = !count;
    $('life-show').hidden ||= !squall.showOnMap;
    const place = list.indexOf(k);
    $('life-back').disabled = place <= 0;
    $('life-next').disabled = place < 0 || place >= list.length - 1;
    const all = points(k), strongest = all.reduce((best, i, index) => (point.a[i] > (point.a[all[best]] || 0) ? index : best), 0);
    $('life-now').textContent = '';
    tell(strongest);
  }

  // Opens the life of an event; the previous and next buttons step through `order`.
  squall.openLife = (k, order) => {
    list = order || squall.listed?.() || [];
    if (!dialog.open) dialog.showModal();
    fill(k);
    dialog.scrollTop = 0;
  };
  const turn = (by) => {
    const next = list[list.indexOf(shown) + by];
    if (next !== undefined) fill(next);
  };
  $('life-back').onclick = () => turn(-1);
  $('life-next').onclick = () => turn(1);
  $('life-close').onclick = () => dialog.close();
  $('life-time').oninput = (e) => tell(Number(e.target.value));
  $('life-show').onclick = () => {
    dialog.close();
    squall.showOnMap(shown, point.t[points(shown)[now]]);
  };
  // A click outside the dialog closes it. Empty areas inside belong to the dialog, and so does a drag that ends
  // outside.
  const isBeside = (e) => {
    const box = dialog.getBoundingClientRect();
    return e.target === dialog && (e.clientX < box.left || e.clientX > box.right || e.clientY < box.top || e.clientY > box.bottom);
  };
  let begunBeside = false;
  dialog.onpointerdown = (e) => { begunBeside = isBeside(e); };
  dialog.onclick = (e) => { if (begunBeside && isBeside(e)) dialog.close(); };
  dialog.onkeydown = (e) => {
    const by = { PageUp: -1, PageDown: 1 }[e.key];
    if (by) {
      e.preventDefault();
      turn(by);
    }
  };
  new ResizeObserver(() => { if (dialog.open && shown >= 0) drawMap(); }).observe(canvas);
}, () => {
  // The table of events reports damaged data.
});
