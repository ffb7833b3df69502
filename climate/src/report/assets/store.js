// Decodes the events of the page: bytes to columns, times to dates. `report/browser/pack.rs` describes the encoding.
squall.store = (async () => {
  const head = JSON.parse(squall.$('event-data').textContent);
  // Browsers from 2023 on have a built-in decompressor.
  if (typeof DecompressionStream === 'undefined') return null;
  const packed = Uint8Array.from(atob(head.bytes), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 0;
  const next = () => {
    let value = 0, factor = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 127) * factor;
      factor *= 128;
    } while (byte & 128);
    return value;
  };
  const unfold = (v) => (v % 2 ? -(v + 1) / 2 : v / 2);
  function column(count) {
    const end = next() + at;
    const values = Float64Array.from({ length: count }, next);
    if (at !== end) throw new Error('the events of this page are damaged');
    return values;
  }
  const n = head.rows;
  const named = (names, count) => Object.fromEntries(names.map((name) => [name, column(count)]));
  const raw = named(head.rowColumns, n);
  const known = (values, step, less = 0) => values.map((v) => (v === 0 ? NaN : (v - 1) * step - less));
  const summed = (values) => {
    let sum = 0;
    return values.map((v) => (sum += unfold(v)));
  };
  const own = summed(raw.id);
  const relative = (values) => values.map((v, k) => (v === 0 ? NaN : own[k] - 1 - unfold(v)));
  const start = summed(raw.start);
  const row = {
    finder: raw.finder, kind: raw.kind, id: own.map((v) => (v === 0 ? NaN : v - 1)),
    start, end: start.map((v, k) => v + raw.duration[k]), seen: raw.seen, basin: raw.basin,
    category: known(raw.category, 1), wind: known(raw.wind, 0.1), pressure: known(raw.pressure, 0.1),
    water: known(raw.water, 0.1), area: known(raw.area, 1), length: known(raw.length, 10), path: known(raw.path, 10),
    confidence: known(raw.confidence, 1), landfalls: known(raw.landfalls, 1), landAt: known(raw.landAt, 1),
    landLat: known(raw.landLat, 0.1, 90), landLon: known(raw.landLon, 0.1), landWind: known(raw.landWind, 0.1),
    landPressure: known(raw.landPressure, 0.1), origin: raw.origin, fate: raw.fate,
    parent: relative(raw.parent), merged: relative(raw.merged), count: raw.count,
  };
  const isOf = (name) => (k) => head.kinds[row.kind[k]].class === name;
  const isRiver = isOf('atmospheric_river'), isTropical = isOf('tropical_cyclone');
  let sum = 0;
  row.first = row.count.map((c) => (sum += c) - c);
  const point = named(head.pointColumns, head.points);
  const confident = head.finders.map((f) => f.confidence);
  // Points are rounded more coarsely than the extremes of their row; rounding must not exceed these extremes.
  const upTo = (v, most, step) => (v > most && v - most < step ? most : v);
  const downTo = (v, least, step) => (v < least && least - v < step ? least : v);
  for (let k = 0; k < n; k++) {
    const river = isRiver(k), sure = confident[row.finder[k]];
    const steps = sure ? [1, 1] : river ? [0.5, 20] : [0.5, 0.5];
    const most = sure ? row.confidence[k] : river ? row.water[k] : row.wind[k];
    const first = row.first[k], end = first + row.count[k];
    for (const [name, values] of Object.entries(point)) {
      let value = name === 't' ? start[k] : 0;
      for (let i = first; i < end; i++) values[i] = value += unfold(values[i]);
    }
    for (let i = first; i < end; i++) {
      point.lat[i] /= 10;
      point.lon[i] /= 10;
      point.a[i] = point.a[i] ? upTo((point.a[i] - 1) * steps[0], most, steps[0]) : NaN;
      const b = point.b[i] ? (point.b[i] - 1) * steps[1] : NaN;
      point.b[i] = river ? upTo(b, row.length[k], steps[1]) : downTo(b, row.pressure[k], steps[1]);
      point.area[i] = point.area[i] ? Math.exp((point.area[i] - 1) / head.areaSteps) : NaN;
      point.w[i] = point.w[i] ? (point.w[i] - 1) / 10 : NaN;
      point.h[i] = point.h[i] ? (point.h[i] - 1) / 10 : NaN;
    }
  }

  // ---- times ------------------------------------------------------------------------------------------------------
  const { unit, second, months } = head.clock;
  const hours = (units) => units * unit / 3600;
  function date(units) {
    const seconds = Math.round(units * unit) + second, day = Math.floor(seconds / 86400);
    let low = 0, high = months.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (months[middle][0] <= day) low = middle;
      else high = middle - 1;
    }
    const [first, year, month, begin] = months[low];
    return { year, month, day: begin + day - first, seconds: squall.mod(seconds, 86400) };
  }
  const two = (v) => String(Math.floor(v)).padStart(2, '0');
  const day = (units) => {
    const d = date(units);
    // Four characters including the sign, like the page's other dates.
    const year = d.year < 0 ? '-' + String(-d.year).padStart(3, '0') : String(d.year).padStart(4, '0');
    return `${d.day} ${squall.MONTHS[d.month - 1]} ${year}`;
  };
  const moment = (units) => {
    const { seconds } = date(units);
    return `${day(units)}, ${two(seconds / 3600)}:${two(seconds / 60 % 60)}`;
  };
  const midnight = (units) => Math.ceil((units * unit + second) / 86400) * 86400 / unit - second / unit;

  // The position of an event at a time: the previous point, interpolated to the next one; null outside of its life.
  function where(k, units) {
    const first = row.first[k], last = first + row.count[k] - 1;
    if (last < first || units < point.t[first] || units > point.t[last]) return null;
    let i = first;
    for (let high = last; i < high;) {
      const middle = (i + high + 1) >> 1;
      if (point.t[middle] <= units) i = middle;
      else high = middle - 1;
    }
    const exact = point.t[i] === units, j = Math.min(i + 1, last);
    const f = exact ? 0 : (units - point.t[i]) / (point.t[j] - point.t[i]);
    const between = (of) => of[i] + f * (of[j] - of[i]);
    return { i, exact, lat: between(point.lat), lon: between(point.lon) };
  }
  const name = (k) => {
    const kind = head.kinds[row.kind[k]].name;
    const called = kind[0].toUpperCase() + kind.slice(1);
    return Number.isNaN(row.id[k]) ? called : `${called} ${row.id[k]}`;
  };
  const basin = (k) => head[head.kinds[row.kind[k]].places][row.basin[k]];
  const grade = (k) => {
    const c = row.category[k];
    if (Number.isNaN(c)) return '–';
    if (isRiver(k)) return `rank ${c}`;
    return c === 0 ? 'depression' : c === 1 ? 'storm' : `category ${c - 1}`;
  };
  return { head, n, row, point, hours, date, day, moment, midnight, where, name, basin, grade, isRiver, isTropical };
})();
