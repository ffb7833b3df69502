// Helpers shared by all scripts of the page. No libraries, no requests: all data come from JSON elements of the page.
'use strict';
const squall = {
  $: (id) => document.getElementById(id),
  mod: (a, b) => ((a % b) + b) % b,
  clamp: (v, low, high) => Math.min(high, Math.max(low, v)),
  MONTHS: ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'],
  place(lat, lon) {
    const signed = squall.mod(lon + 180, 360) - 180;
    return `${Math.abs(lat).toFixed(1)}°${lat < 0 ? 'S' : 'N'} ${Math.abs(signed).toFixed(1)}°${signed < 0 ? 'W' : 'E'}`;
  },
  grouped: (digits) => (digits.length > 4 ? digits.replace(/\B(?=(\d{3})+$)/g, '\u202f') : digits),
  whole: (v) => squall.grouped(String(Math.round(v))),
  // A number of significant digits with grouped thousands; at most `most` decimals, the precision of the column.
  number(v, digits = 3, most = 6) {
    if (!Number.isFinite(v)) return '–';
    const size = Math.abs(v), power = size ? Math.floor(Math.log10(size)) : digits - 1;
    const scale = 10 ** Math.max(0, power - digits + 1), decimals = squall.clamp(digits - 1 - power, 0, most);
    const [whole, fraction] = (decimals ? size : Math.round(size / scale) * scale).toFixed(decimals).split('.');
    return (v < 0 ? '−' : '') + squall.grouped(whole) + (fraction ? `.${fraction}` : '');
  },
  // Hours as days, for columns, which have one unit.
  days: (hours) => (hours < 240 ? squall.number(hours / 24, 2) : squall.whole(hours / 24)),
  // A duration in a suitable unit.
  duration: (hours) => (hours < 48 ? `${squall.whole(hours)} h` : `${squall.days(hours)} days`),
  escape: (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`),
  // Round axis ticks, as in the page's other plots.
  ticks(low, high, wanted) {
    const span = high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-12) ? high - low : Math.max(Math.abs(low), 1);
    const rough = span / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999999) || 10 * power;
    const first = Math.floor(low / step + 1e-9), last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
    return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
  },
};
