// The table of events: filters, sort order, pagination.
squall.store.then((store) => {
  const { $, number, whole } = squall;
  if (!store) {
    $('found').textContent = 'This browser cannot unpack the events (it lacks DecompressionStream); one from 2023 or later can.';
    return;
  }
  const { row, head, n } = store;
  const ROWS = 25;
  const years = row.start.map((t) => store.date(t).year);
  const seasons = row.start.map((t) => Math.floor(squall.mod(store.date(t).month, 12) / 3));
  const lifetime = row.end.map((t, k) => store.hours(t - row.start[k]));
  const some = (column) => column.some((v) => !Number.isNaN(v));
  const cell = (column, digits, most) => (k) => number(column[k], digits, most);
  const columns = [
    { name: 'Event', key: row.id, text: store.name },
    { name: 'Found by', key: row.finder, text: (k) => head.finders[row.finder[k]].label, shown: head.finders.length > 1 },
    { name: 'Began', key: row.start, text: (k) => store.moment(row.start[k]) },
    { name: 'Basin', key: row.basin, text: store.basin },
    { name: 'Lifetime (days)', key: lifetime, text: (k) => (lifetime[k] ? squall.days(lifetime[k]) : '–'), number: true },
    { name: 'Strength', key: row.category, text: store.grade, shown: some(row.category) },
    { name: 'Wind (m\u00a0s⁻¹)', key: row.wind, text: cell(row.wind, 3, 1), number: true, shown: some(row.wind) },
    { name: 'Pressure (hPa)', key: row.pressure, text: cell(row.pressure, 4, 1), number: true, shown: some(row.pressure) },
    { name: 'Water (kg\u00a0m⁻²)', key: row.water, text: cell(row.water, 3, 1), number: true, shown: some(row.water) },
    { name: 'Confidence (%)', key: row.confidence, text: cell(row.confidence, 2, 0), number: true, shown: some(row.confidence) },
    { name: 'Area (thousand km²)', key: row.area, text: cell(row.area, 3, 0), number: true, shown: some(row.area) },
    { name: 'Path (km)', key: row.path, text: cell(row.path, 3, 0), number: true, shown: some(row.path) },
    { name: 'Landfalls', key: row.landfalls, text: (k) => (Number.isNaN(row.landfalls[k]) ? '–' : String(row.landfalls[k])), number: true, shown: some(row.landfalls) },
  ].filter((c) => c.shown !== false);

  const order = { column: columns.findIndex((c) => c.name === 'Began'), down: false };
  let listed = [], page = 0;
  squall.listed = () => listed;

  // ---- filters ----------------------------------------------------------------------------------------------------
  const chosen = (id) => {
    const value = $(id)?.value ?? '';
    return value === '' ? null : Number(value);
  };
  function select() {
    const [kind, finder, basin, season, strength, from, to, id] = ['class', 'finder', 'basin', 'season', 'category', 'from', 'to', 'id'].map((f) => chosen('filter-' + f));
    const is = (wanted, value) => wanted === null || wanted === value;
    listed = [];
    for (let k = 0; k < n; k++) {
      if (is(kind, row.kind[k]) && is(finder, row.finder[k]) && is(basin, row.basin[k]) && is(season, seasons[k]) && is(id, row.id[k])
        && (strength === null || row.category[k] >= strength) && (from === null || years[k] >= from) && (to === null || years[k] <= to)) listed.push(k);
    }
    const key = columns[order.column].key, side = order.down ? -1 : 1;
    // Unknown values come last in either direction.
    listed.sort((a, b) => {
      const [p, q] = [key[a], key[b]];
      if (Number.isNaN(p) || Number.isNaN(q)) return Number.isNaN(p) - Number.isNaN(q) || a - b;
      return side * (p - q) || a - b;
    });
    $('found').textContent = listed.length === n ? `${whole(n)} events` : `${whole(listed.length)} of ${whole(n)} events`;
    show(0);
  }

  // ---- rows -------------------------------------------------------------------------------------------------------
  const body = $('rows').tBodies[0];
  function show(index) {
    const pages = Math.max(1, Math.ceil(listed.length / ROWS));
    page = squall.clamp(index, 0, pages - 1);
    const rows = listed.slice(page * ROWS, (page + 1) * ROWS).map((k) => {
      const tr = document.createElement('tr');
      tr.dataset.event = k;
      columns.forEach((c, index) => {
        const td = document.createElement(index ? 'td' : 'th');
        td.dataset.label = c.name;
        td.className = c.number ? 'n' : [row.start, row.basin, row.category].includes(c.key) ? 'whole' : '';
        if (index) td.textContent = c.text(k);
        else {
          td.scope = 'row';
          const button = Object.assign(document.createElement('button'), { type: 'button', className: 'event', textContent: c.text(k) });
          const mark = document.createElement('i');
          mark.style.background = head.kinds[row.kind[k]].colour;
          button.prepend(mark);
          td.append(button);
        }
        tr.append(td);
      });
      return tr;
    });
    body.replaceChildren(...rows);
    const last = Math.min(listed.length, (page + 1) * ROWS);
    $('page-at').textContent = listed.length ? `${whole(page * ROWS + 1)} to ${whole(last)} of ${whole(listed.length)}` : 'nothing fits the filters';
    $('page-back').disabled = page === 0;
    $('page-next').disabled = page >= pages - 1;
  }

  // ---- order ------------------------------------------------------------------------------------------------------
  const heads = columns.map((c, index) => {
    const th = document.createElement('th');
    th.scope = 'col';
    if (c.number) th.className = 'n';
    const button = Object.assign(document.createElement('button'), { type: 'button', className: 'sorter', textContent: c.name });
    button.onclick = () => sort(index, order.column === index ? !order.down : c.number || c.name === 'Strength');
    th.append(button);
    $('sort').append(new Option(c.name, index));
    return th;
  });
  $('rows').tHead.rows[0].append(...heads);
  function sort(column, down) {
    Object.assign(order, { column, down });
    heads.forEach((th, index) => th.setAttribute('aria-sort', index !== column ? 'none' : down ? 'descending' : 'ascending'));
    $('sort').value = column;
    $('sort-turn').textContent = down ? '↓' : '↑';
    select();
  }
  $('sort').onchange = (e) => sort(Number(e.target.value), columns[e.target.value].number || columns[e.target.value].name === 'Strength');
  $('sort-turn').onclick = () => sort(order.column, !order.down);

  // ---- interaction ------------------------------------------------------------------------------------------------
  body.onclick = (e) => {
    const tr = e.target.closest('tr');
    // Selecting text of a row, to copy it, does not open the row.
    const marks = !e.target.closest('button') && !getSelection().isCollapsed;
    if (tr && !marks) squall.openLife(Number(tr.dataset.event), listed);
  };
  body.onkeydown = (e) => {
    const by = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[e.key];
    const next = by && e.target.closest('tr')?.[by];
    if (next) {
      e.preventDefault();
      next.querySelector('button').focus();
    }
  };
  $('page-back').onclick = () => show(page - 1);
  $('page-next').onclick = () => show(page + 1);
  const filters = $('filters');
  filters.onsubmit = (e) => e.preventDefault();
  filters.oninput = (e) => { if (e.target.id !== 'sort') select(); };
  filters.onreset = () => setTimeout(() => sort(columns.findIndex((c) => c.name === 'Began'), false));
  const [first, last] = years.reduce(([low, high], y) => [Math.min(low, y), Math.max(high, y)], [Infinity, -Infinity]);
  for (const [id, year] of [['filter-from', first], ['filter-to', last]]) Object.assign($(id), { min: first, max: last, placeholder: year });
  sort(order.column, false);
}, () => {
  squall.$('found').textContent = 'The events of this page are damaged and cannot be shown: make the report again, or copy it again.';
});
