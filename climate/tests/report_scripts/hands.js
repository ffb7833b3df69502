// Actions and observations of a reader. The map has two pixels per degree, and its left edge is the zero meridian.
const by = (id) => document.getElementById(id);
const text = (id) => by(id).textContent;
const click = (id) => { if (!by(id).disabled) by(id).fire('click'); };
const key = (name, more) => by('canvas').fire('keydown', { key: name, ...more });
const choose = (id, value) => {
  by(id).value = value;
  by(id).fire('input');
  by(id).fire('change');
};
const tick = (id, on) => {
  by(id).checked = on;
  by(id).fire('change');
};
// Ends the pauses that the scripts wait for.
const pass = () => timers.splice(0).forEach((act) => act());

// ---- the map --------------------------------------------------------------------------------------------------------
const at = (kind, lon, lat) => by('canvas').fire(kind, { clientX: 2 * lon, clientY: 2 * (90 - lat), pointerId: 1, pointerType: 'mouse' });
const press = (lon, lat) => ['pointerdown', 'pointerup', 'click'].forEach((kind) => at(kind, lon, lat));
const tip = (lon, lat) => {
  at('pointermove', lon, lat);
  return by('tip').hidden ? null : text('tip');
};
const time = () => [text('stamp'), text('position'), by('time').value];
// The visible lines of a colour: west, north, east and south end of each piece, in pixels.
const lines = (colour, dashed) => by('canvas').pen.drawn
  .filter((d) => d.name === 'stroke' && d.colour === colour && dashed === d.dash.length > 0).flatMap((d) => d.pieces)
  .map(([west, north, east, south]) => [Math.max(0, west), north, Math.min(720, east), south])
  .filter(([west, , east]) => west < east).sort((a, b) => a[0] - b[0]);
const data = (id) => JSON.parse(text(id));
const masks = (code) => lines(data('data').classColours[code], false);
// Boxes of a network are dashed.
const boxes = (kind) => lines(data('event-data').kinds[kind].colour, true);
const tracks = (kind) => lines(data('event-data').kinds[kind].colour, false);
// Red, green, blue and opacity of the five-degree cell around a position.
const shade = (lon, lat) => {
  const k = 72 * Math.floor((90 - lat) / 5) + Math.floor(lon / 5);
  return [...by('canvas').pen.drawn.find((d) => d.name === 'drawImage').rgba.slice(4 * k, 4 * k + 4)];
};
// A colour of one of the page's colour scales.
const shadeOf = (scale, level) => [0, 1, 2].map((k) => parseInt(data('data').colours[scale].substr(6 * level + 2 * k, 2), 16));

// ---- the table ------------------------------------------------------------------------------------------------------
const rows = () => by('rows').tBodies[0].children;
const cell = (row, heading) => row.children.find((c) => c.dataset.label.startsWith(heading)).textContent;
const names = () => rows().map((row) => cell(row, 'Event'));
const sorter = (heading) => by('rows').tHead.querySelectorAll('button').find((b) => b.textContent.startsWith(heading));
// The rows of a table that is not created by a script.
const still = (caption) => page.querySelectorAll('caption').find((c) => c.textContent.startsWith(caption)).parentElement.tBodies[0].children;
const charts = () => by('life-charts').children;
const line = (chart) => charts().find((c) => c.textContent.startsWith(chart)).querySelector('.line').getAttribute('d');
