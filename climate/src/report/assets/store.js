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
  const raw = Array.from({ length: head.rowColumns }, () => column(n));
  const known = (values, step, less = 0) => values.map((v) => (v === 0 ? NaN : (v - 1) * step - less));
  const summed = (values) => {
    let sum = 0;
    return values.map((v) => (sum += unfold(v)));
  };
  const own = summed(raw[2]);
  const relative = (values) => values.map((v, k) => (v === 0 ? NaN : own[k] - 1 - unfold(v)));
  const start = summed(raw[3]);
  const row = {
    finder: raw[0], kind: raw[1], id: own.map((v) => (v === 0 ? NaN : v - 1)),
    start, end: start.map((v, k) => v + raw[4][k]), seen: raw[5], basin: raw[6],
    category: known(raw[7], 1), wind: known(raw[8], 0.1), pressure: known(raw[9], 0.1), water: known(raw[10], 0.1),
    area: known(raw[11], 1), length: known(raw[12], 10), path: known(raw[13], 10), confidence: known(raw[14], 1),
    landfalls: known(raw[15], 1), landAt: known(raw[16], 1), landLat: known(raw[17], 0.1, 90), landLon: known(raw[18], 0.1),
    landWind: known(raw[19], 0.1), landPressure: known(raw[20], 0.1), origin: raw[21], fate: raw[22],
    parent: relative(raw[23]), merged: relative(raw[24]), count: raw[25],
  };
  let sum = 0;
  row.first = row.count.map((c) => (sum += c) - c);
  const p = Array.from({ length: head.pointColumns }, () => column(head.points));
  const confident = head.finders.map((f) => f.confidence);
  const point = {
    t: p[0], lat: p[1], lon: p[2], a: p[3], b: p[4], area: p[5], w: p[6], h: p[7],
  };
  // Points are rounded more coarsely than the extremes of their row; rounding must not exceed these extremes.
  const upTo = (v, most, step) => (v > most && v - most < step ? most : v);
  const downTo = (v, least, step) => (v < least && least - v < step ? least : v);
  for (let k = 0; k < n; k++) {
    const river = row.kind[k] === 3, sure = confident[row.finder[k]];
    const steps = sure ? [1, 1] : river ? [0.5, 20] : [0.5, 0.5];
    const most = sure ? row.confidence[k] : river ? row.water[k] : row.wind[k];
    const before = [start[k], 0, 0, 0, 0, 0, 0, 0];
    for (let i = row.first[k]; i < row.first[k] + row.count[k]; i++) {
      for (let c = 0; c < p.length; c++) before[c] += unfold(p[c][i]);
      point.t[i] = before[0];
      point.lat[i] = before[1] / 10;
      point.lon[i] = before[2] / 10;
      point.a[i] = before[3] ? upTo((before[3] - 1) * steps[0], most, steps[0]) : NaN;
      const b = before[4] ? (before[4] - 1) * steps[1] : NaN;
      point.b[i] = river ? upTo(b, row.length[k], steps[1]) : downTo(b, row.pressure[k], steps[1]);
      point.area[i] = before[5] ? Math.exp((before[5] - 1) / head.areaSteps) : NaN;
      point.w[i] = before[6] ? (before[6] - 1) / 10 : NaN;
      point.h[i] = before[7] ? (before[7] - 1) / 10 : NaN;
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
    if (row.kind[k] === 3) return `rank ${c}`;
    return c === 0 ? 'depression' : c === 1 ? 'storm' : `category ${c - 1}`;
  };
  return { head, n, row, point, hours, date, day, moment, midnight, where, name, basin, grade };
})();
