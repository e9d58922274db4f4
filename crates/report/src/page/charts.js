// Draws the page's charts from the results and the view that lie in it. Text from the results only ever becomes text.
(() => {
  'use strict';
  const root = document.documentElement;
  root.dataset.errors = '0';
  const fail = (message) => {
    root.dataset.errors = String(Number(root.dataset.errors) + 1);
    const box = document.getElementById('failure');
    box.hidden = false;
    box.textContent = `The charts could not be drawn: ${message}`;
  };
  window.addEventListener('error', (event) => fail(event.message));

  const data = (id) => JSON.parse(document.getElementById(id).textContent);
  const results = data('results');
  const view = data('view');

  // Colours that people with any kind of colour vision can tell apart; dashes and symbols say the same again.
  const LIGHT = ['#0072b2', '#d55e00', '#00795b', '#a83a86', '#8a6a00', '#2f8fd0', '#444b55'];
  const DARK = ['#56b4e9', '#ff8c52', '#2fc99b', '#e79ac9', '#f0c24b', '#b7a8ff', '#d5d9de'];
  const DASHES = [[], [9, 4], [2, 3], [12, 3, 2, 3], [5, 3], [14, 3, 2, 3, 2, 3], [1, 2]];
  const SYMBOLS = {
    circle: 'M0,-5A5,5,0,1,0,0.001,-5Z',
    square: 'M-4.5,-4.5H4.5V4.5H-4.5Z',
    triangle: 'M0,-5.5L5.5,4.5H-5.5Z',
    diamond: 'M0,-6L5.5,0L0,6L-5.5,0Z',
    cross: 'M-5,-1.8H-1.8V-5H1.8V-1.8H5V1.8H1.8V5H-1.8V1.8H-5Z',
    down: 'M0,5.5L5.5,-4.5H-5.5Z',
  };
  const SYMBOL_PATHS = Object.values(SYMBOLS);
  const isDark = () => {
    const asked = root.dataset.theme;
    return asked ? asked === 'dark' : window.matchMedia('(prefers-color-scheme: dark)').matches;
  };
  const variable = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const style = (i) => {
    const colours = isDark() ? DARK : LIGHT;
    // With more labels than dashes the pairs of colour and dash shift.
    const round = Math.floor(i / colours.length);
    return {
      colour: colours[i % colours.length],
      dash: DASHES[(i + round) % DASHES.length],
      symbol: SYMBOL_PATHS[(i + round) % SYMBOL_PATHS.length],
    };
  };

  // Values.
  const digits = (x, n) => (x === 0 ? '0' : Number(x.toPrecision(n)).toLocaleString('en-GB', { maximumSignificantDigits: n }));
  const time = (ns, n) => {
    if (ns === 0) return '0';
    if (ns < 1e3) return `${digits(ns, n)} ns`;
    if (ns < 1e6) return `${digits(ns / 1e3, n)} µs`;
    if (ns < 1e9) return `${digits(ns / 1e6, n)} ms`;
    return `${digits(ns / 1e9, n)} s`;
  };
  const SHOW = {
    time: (x, n) => time(x, n),
    count: (x) => Math.round(x).toLocaleString('en-GB'),
    percent: (x, n) => `${digits(100 * x, n)} %`,
    decimal: (x, n) => digits(x, n),
    rate: (x, n) => digits(x / 1e6, n),
  };
  const shown = (figure, x, n = 4) => (x === null || x === undefined ? '–' : SHOW[figure.show](x, n));

  const at = (value, path) => path.split('.').reduce((inner, key) => (inner === null || inner === undefined ? null : inner[key]), value);
  const number = (run, path) => {
    const value = at(run, path);
    return typeof value === 'number' ? value : null;
  };

  // What is worked out of a bin of a series.
  const per = (part, whole) => (whole > 0 ? part / whole : null);
  const SERIES = {
    mean: (b, i) => per(b.read_response_sum[i] + b.write_response_sum[i], b.responses[i]),
    max: (b, i) => (b.responses[i] > 0 ? Math.max(b.read_response_max[i], b.write_response_max[i]) : null),
    queue: (b, i) => per(b.backlog_sum[i], b.requests[i]),
    gc: (b, i, run, width) => b.gc_time[i] / (width * run.ssd.elements.length),
    delayed: (b, i) => per(b.gc_delayed[i], b.responses[i]),
    wa: (b, i) => per(b.host_programs[i] + b.gc_pages_moved[i], b.host_programs[i]),
    hits: (b, i) => per(b.hits[i], b.accesses[i]),
    evictions: (b, i, run, width) => (b.evictions[i] * 1e9) / width,
    rate: (b, i, run, width) => ((b.host_bytes_read[i] + b.host_bytes_written[i]) * 1e9) / width,
  };
  // A series with no more spans than a chart can show.
  const SPANS = 100;
  const coarse = ({ width, bins }) => {
    const per = Math.ceil((bins.requests || []).length / SPANS);
    if (per < 2) return { width, bins };
    const merged = {};
    Object.entries(bins).forEach(([key, values]) => {
      const merge = key.endsWith('_max') ? Math.max : (a, b) => a + b;
      merged[key] = [];
      values.forEach((value, i) => {
        const at = Math.floor(i / per);
        merged[key][at] = i % per === 0 ? value : merge(merged[key][at], value);
      });
    });
    return { width: width * per, bins: merged };
  };
  const NOT_WHEN_SATURATED = ['mean', 'max', 'delayed'];

  // The run of a label at a size; where a label has no cache, the one that it has.
  const runOf = (group, label, size) => {
    const own = group.points.filter((point) => point[1] === label);
    const point = own.find((p) => p[2] === size) || (own.length === 1 && results[own[0][0]].cache_bytes === null ? own[0] : null);
    return point ? results[point[0]] : null;
  };

  // The lines of a figure: {label, name, points: [[x, y], ...]}.
  const lines = (group, figure, size, labels) => {
    const of = (points) => labels.map((label) => {
      const run = runOf(group, label, size);
      return { label, name: group.labels[label], points: run ? points(run) : [] };
    }).filter((line) => line.points.length > 0);
    switch (figure.form) {
      case 'sweep':
        return labels.map((label) => {
          const points = group.points.filter((p) => p[1] === label)
            .map((p) => [p[2], number(results[p[0]], figure.paths[0][1])])
            .filter((p) => p[1] !== null && !(figure.log && p[1] <= 0))
            .sort((a, b) => a[0] - b[0]);
          return { label, name: group.labels[label], points };
        }).filter((line) => line.points.length > 0);
      case 'parts':
        return figure.paths.map(([name, path], i) => {
          const points = labels.map((label, y) => [runOf(group, label, size), y])
            .filter(([run]) => run !== null)
            .map(([run, y]) => [number(run, path), y])
            .filter(([x]) => x !== null && x > 0);
          return { label: i, name, points };
        }).filter((line) => line.points.length > 0);
      case 'cdf':
      case 'tail':
        return of((run) => {
          const classes = at(run, 'response.distribution');
          if (!classes || !classes.up_to) return [];
          const counts = classes.up_to.map((_, i) => classes.reads[i] + classes.writes[i]);
          const all = counts.reduce((a, b) => a + b, 0);
          let within = 0;
          const points = classes.up_to.map((upTo, i) => {
            within += counts[i];
            return [Math.max(upTo, 1), figure.form === 'cdf' ? within / all : (all - within) / all];
          });
          return figure.form === 'cdf' ? points : points.filter((point) => point[1] > 0);
        });
      case 'time':
        return of((run) => {
          const what = figure.paths[0][1];
          if (run.saturated !== null && NOT_WHEN_SATURATED.includes(what)) return [];
          const { width, bins } = coarse(run.series);
          if (!bins.requests) return [];
          return bins.requests.map((_, i) => {
            const y = SERIES[what](bins, i, run, width);
            return [((i + 0.5) * width) / 1e9, figure.log && y !== null && y <= 0 ? null : y];
          });
        });
      case 'wear':
        return of((run) => {
          const blocks = new Map();
          const add = (classes) => {
            if (classes && classes.from) classes.from.forEach((from, i) => {
              const middle = (from + classes.to[i]) / 2;
              blocks.set(middle, (blocks.get(middle) || 0) + classes.blocks[i]);
            });
          };
          if (run.ssd) add(run.ssd.wear);
          (run.devices || []).forEach((device) => add(device.wear));
          return [...blocks].sort((a, b) => a[0] - b[0]);
        });
      default:
        return [];
    }
  };

  const X = {
    sweep: { name: 'cache size', show: (group) => (x) => group.sizes[x] },
    parts: { name: '', show: () => (x) => time(x, 4) },
    cdf: { name: 'response time', show: () => (x) => time(x, 4) },
    tail: { name: 'response time', show: () => (x) => time(x, 4) },
    time: { name: 'simulated time, s', show: () => (x) => `${digits(x, 5)} s` },
    wear: { name: 'erases of a block', show: () => (x) => digits(x, 5) },
  };

  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  };

  const swatch = (i, form) => {
    const { colour, dash, symbol } = style(i);
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    const add = (name, attributes) => {
      const made = document.createElementNS(space, name);
      Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
      svg.append(made);
    };
    Object.entries({ width: 40, height: 12, viewBox: '-20 -6 40 12', 'aria-hidden': 'true' }).forEach(([k, v]) => svg.setAttribute(k, v));
    if (form !== 'parts') add('line', { x1: -20, x2: 20, y1: 0, y2: 0, stroke: colour, 'stroke-width': 2, 'stroke-dasharray': dash.join(',') || 'none' });
    add('path', { d: symbol, fill: colour, transform: 'scale(0.8)' });
    return svg;
  };

  const legend = (figure, drawn) => {
    const list = element('div', undefined, { class: 'legend' });
    drawn.forEach((line) => {
      const item = element('span');
      item.append(swatch(line.label, figure.form), ` ${line.name}`);
      list.append(item);
    });
    return list;
  };

  const powers = (values) => {
    const positive = values.filter((value) => value > 0);
    if (positive.length === 0) return {};
    const [least, most] = positive.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, 0]);
    const min = 10 ** Math.floor(Math.log10(least));
    const max = 10 ** Math.ceil(Math.log10(most));
    return { min, max: max > min ? max : min * 10 };
  };

  // One of the marks of a line that is too dense to mark each of its points.
  const MARKS = 9;
  const marked = (points, i) => {
    const step = Math.max(1, Math.floor(points.length / MARKS));
    const offset = Math.floor((step * (i % 5)) / 5);
    return points.map((point, n) => (n % step === offset ? { value: point } : { value: point, symbol: 'none' }));
  };

  const option = (group, figure, drawn, labels, narrow) => {
    const [ink, soft, rule, paper] = ['--ink', '--soft', '--line', '--paper'].map(variable);
    const text = { color: ink, fontSize: narrow ? 11 : 12, fontFamily: getComputedStyle(document.body).fontFamily };
    const base = { axisLabel: { ...text, color: soft }, nameTextStyle: text, nameLocation: 'middle', axisLine: { show: true, lineStyle: { color: soft } }, splitLine: { lineStyle: { color: rule } } };
    const values = (k) => drawn.flatMap((line) => line.points.map((point) => point[k])).filter((value) => value !== null);
    const xShow = X[figure.form].show(group);
    const figures = values(figure.form === 'parts' ? 0 : 1);
    // Figures that lie close together are told apart better from zero on.
    const spread = figures.length > 0 && Math.max(...figures) >= 8 * Math.min(...figures);
    const isLog = (axis) => {
      if (axis === 'x' && figure.form !== 'parts') return figure.form === 'cdf' || figure.form === 'tail';
      return (axis === 'x') === (figure.form === 'parts') && figure.log && spread;
    };
    const numeric = (k, axis, show) => ({
      ...base,
      type: isLog(axis) ? 'log' : 'value',
      ...(isLog(axis) ? powers(values(k)) : {}),
      axisLabel: { ...base.axisLabel, hideOverlap: true, formatter: show },
    });
    let x = numeric(0, 'x', figure.form === 'time' ? (v) => digits(v, 5) : figure.form === 'wear' ? (v) => digits(v, 5) : (v) => time(v, 3));
    let y = numeric(1, 'y', (v) => shown(figure, v, 3));
    if (figure.form === 'time') {
      const seen = values(0);
      x.min = 0;
      x.max = Math.max(...seen) + Math.min(...seen);
      x.axisLabel.showMaxLabel = false;
    }
    if (figure.form === 'wear') {
      const [from, to] = [Math.min(...values(0)), Math.max(...values(0))];
      Object.assign(x, { min: Math.max(0, Math.floor(from) - 1), max: Math.ceil(to) + 1, minInterval: 1 });
    }
    if (figure.form === 'cdf') Object.assign(y, { min: 0, max: 1 });
    if (figure.form === 'sweep') x = { ...base, type: 'category', data: group.sizes, boundaryGap: true, splitLine: { show: false } };
    if (figure.form === 'parts') {
      x.axisLabel.formatter = (v) => time(v, 3);
      y = { ...base, type: 'category', data: labels.map((label) => group.labels[label]), inverse: true, splitLine: { show: true, lineStyle: { color: rule } }, axisLabel: { ...base.axisLabel, color: ink, width: narrow ? 150 : 190, overflow: 'break' } };
    }
    const isParts = figure.form === 'parts';
    Object.assign(x, { name: isParts ? figure.axis : X[figure.form].name, nameGap: 24 });
    if (!isParts) Object.assign(y, { name: figure.axis, nameGap: 12 });
    const series = drawn.map((line) => {
      const { colour, dash, symbol } = style(line.label);
      const dense = line.points.length > 40;
      return {
        type: 'line',
        name: line.name,
        data: dense ? marked(line.points, line.label) : line.points,
        symbol: `path://${symbol}`,
        symbolSize: isParts ? 12 : dense ? 7 : 9,
        symbolKeepAspect: true,
        showAllSymbol: true,
        connectNulls: false,
        step: figure.form === 'wear' ? 'middle' : false,
        itemStyle: { color: colour },
        lineStyle: { color: colour, width: isParts ? 0 : dense ? 1.4 : 2, type: dash.length > 0 ? dash : 'solid' },
        emphasis: { disabled: true },
      };
    });
    const tooltip = {
      trigger: isParts ? 'item' : 'axis',
      backgroundColor: paper,
      borderColor: rule,
      textStyle: { ...text, fontSize: 12 },
      confine: true,
      axisPointer: { lineStyle: { color: soft } },
      formatter: (items) => {
        const all = Array.isArray(items) ? items : [items];
        const box = element('div');
        const place = isParts ? group.labels[labels[all[0].value[1]]] : xShow(all[0].value[0]);
        box.append(element('strong', place));
        all.forEach((item) => {
          const value = isParts ? item.value[0] : item.value[1];
          box.append(element('div', `${item.seriesName}: ${isParts ? time(value, 4) : shown(figure, value)}`));
        });
        return box;
      },
    };
    return { animation: false, textStyle: text, tooltip, grid: { left: 8, right: 24, top: 12, bottom: 8, outerBoundsMode: 'same', outerBoundsContain: 'all' }, xAxis: x, yAxis: y, series };
  };

  // Words for who cannot see the chart.
  const words = (group, figure, drawn, labels) => {
    const start = `${figure.title}; ${figure.axis}. `;
    if (drawn.length === 0) return `${start}No run has such figures.`;
    const each = drawn.map((line) => {
      const known = line.points.filter((point) => point[1] !== null && point[0] !== null);
      if (figure.form === 'sweep') return `${line.name}: ${known.map(([x, y]) => `${group.sizes[x]} ${shown(figure, y, 3)}`).join(', ')}`;
      if (figure.form === 'parts') return `${line.name}: ${known.map(([x, y]) => `${group.labels[labels[y]]} ${time(x, 3)}`).join(', ')}`;
      if (figure.form === 'cdf' || figure.form === 'tail') {
        const bound = (share) => known.find(([, y]) => (figure.form === 'cdf' ? y >= share : y <= 1 - share + 1e-12));
        const told = [0.5, 0.99, 0.999].map((share) => [share, bound(share)]).filter(([, found]) => found);
        return `${line.name}: ${told.map(([share, found]) => `${100 * share} % within ${time(found[0], 3)}`).join(', ')}`;
      }
      const ys = known.map(([, y]) => y);
      if (ys.length === 0) return `${line.name}: none`;
      const [least, most] = ys.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
      return `${line.name}: from ${shown(figure, least, 3)} to ${shown(figure, most, 3)}`;
    });
    return `${start}${each.join('. ')}.`;
  };

  const table = (group, figure, drawn, labels) => {
    const made = element('table');
    made.append(element('caption', figure.title, { class: 'note' }));
    const head = element('tr');
    const isParts = figure.form === 'parts';
    head.append(element('th', isParts ? 'policy' : X[figure.form].name, { scope: 'col' }));
    drawn.forEach((line) => head.append(element('th', line.name, { scope: 'col' })));
    made.append(element('thead'), element('tbody'));
    made.tHead.append(head);
    const [key, value] = isParts ? [1, 0] : [0, 1];
    const keys = [...new Set(drawn.flatMap((line) => line.points.map((point) => point[key])))].sort((a, b) => a - b);
    const columns = drawn.map((line) => new Map(line.points.map((point) => [point[key], point[value]])));
    const xShow = X[figure.form].show(group);
    keys.forEach((k) => {
      const row = element('tr');
      row.append(element('th', isParts ? group.labels[labels[k]] : xShow(k), { scope: 'row' }));
      columns.forEach((column) => row.append(element('td', isParts ? (column.has(k) ? time(column.get(k), 4) : '–') : shown(figure, column.get(k)))));
      made.tBodies[0].append(row);
    });
    return made;
  };

  // The charts.
  const charts = [...document.querySelectorAll('figure[data-figure]')].map((box) => {
    const group = view[Number(box.dataset.group)];
    const figure = group.figures.find((f) => f.id === box.dataset.figure);
    const place = box.querySelector('.chart');
    return { box, group, figure, place, number: Number(box.dataset.group), instance: null };
  });
  const chosen = view.map((group) => ({ size: group.size, labels: group.labels.map((_, i) => i) }));
  let printing = false;

  const draw = (chart) => {
    const { box, group, figure, place } = chart;
    const { size, labels } = chosen[chart.number];
    const drawn = lines(group, figure, size, labels);
    const caption = box.querySelector('.size');
    if (caption) caption.textContent = group.sizes.length > 1 || group.sizes[0] !== 'no cache' ? `, ${group.sizes[size]}` : '';
    if (!chart.instance) chart.instance = echarts.init(place, null, { renderer: 'svg' });
    chart.instance.resize(printing ? { width: 660, height: 250 } : { width: 'auto', height: 'auto' });
    chart.instance.setOption(option(group, figure, drawn, labels, place.clientWidth < 520), { notMerge: true });
    chart.instance.getZr().flush();
    place.setAttribute('aria-label', words(group, figure, drawn, labels));
    const before = box.querySelector('.legend');
    if (before) before.remove();
    place.after(legend(figure, drawn));
    const details = box.querySelector('details');
    const scroll = details.querySelector('.scroll');
    scroll.setAttribute('aria-label', `${figure.title}, data`);
    scroll.replaceChildren();
    const fill = () => {
      if (details.open && scroll.childElementCount === 0) scroll.append(table(group, figure, drawn, labels));
    };
    details.ontoggle = fill;
    fill();
  };
  const tryToDraw = (chart) => {
    try {
      draw(chart);
    } catch (error) {
      fail(error.message);
    }
  };
  const drawAll = () => charts.forEach(tryToDraw);

  // What the reader chooses.
  document.querySelectorAll('form.controls').forEach((form) => {
    form.hidden = form.childElementCount === 0;
    const number = Number(form.dataset.group);
    form.addEventListener('submit', (event) => event.preventDefault());
    form.addEventListener('change', () => {
      const select = form.querySelector('select');
      if (select) chosen[number].size = Number(select.value);
      const boxes = [...form.querySelectorAll('input[type=checkbox]')];
      if (boxes.length > 0) chosen[number].labels = boxes.filter((input) => input.checked).map((input) => Number(input.value));
      charts.filter((chart) => chart.number === number).forEach(tryToDraw);
    });
    form.querySelectorAll('input[type=checkbox]').forEach((input) => input.after(swatch(Number(input.value))));
  });
  const theme = document.getElementById('theme');
  const nameTheme = () => {
    theme.textContent = isDark() ? 'Light' : 'Dark';
    theme.setAttribute('aria-label', `Change to ${isDark() ? 'light' : 'dark'} colours`);
  };
  const recolour = () => {
    nameTheme();
    document.querySelectorAll('form.controls input[type=checkbox]').forEach((input) => {
      input.nextElementSibling.replaceWith(swatch(Number(input.value)));
    });
    drawAll();
  };
  theme.hidden = false;
  theme.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    recolour();
  });
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);

  // Sorting the tables of runs.
  document.querySelectorAll('table.runs').forEach((runs) => {
    const heads = [...runs.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = element('button', head.textContent, { type: 'button' });
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const up = head.getAttribute('aria-sort') !== 'ascending';
        heads.forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
        const key = (row) => {
          const cell = row.cells[column];
          if (column === 0) return cell.textContent;
          return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
        };
        const compare = (a, b) => {
          const [x, y] = [key(a), key(b)];
          // What has no figure stays at the end.
          if (x === null || y === null) return (x === null) - (y === null);
          const order = typeof x === 'string' ? x.localeCompare(y, 'en-GB') : x - y;
          return up ? order : -order;
        };
        [...runs.tBodies[0].rows].sort(compare).forEach((row) => runs.tBodies[0].append(row));
      });
    });
  });

  // Print: light, and as wide as the paper.
  let asked;
  window.addEventListener('beforeprint', () => {
    asked = root.dataset.theme;
    root.dataset.theme = 'light';
    printing = true;
    recolour();
  });
  window.addEventListener('afterprint', () => {
    if (asked === undefined) delete root.dataset.theme; else root.dataset.theme = asked;
    printing = false;
    recolour();
  });

  nameTheme();
  drawAll();
  const resized = new ResizeObserver((entries) => {
    if (printing) return;
    entries.forEach(({ target }) => {
      const chart = charts.find(({ place }) => place === target);
      if (chart.instance && chart.instance.getWidth() !== target.clientWidth) tryToDraw(chart);
    });
  });
  charts.forEach(({ place }) => resized.observe(place));
  root.dataset.charts = String(charts.filter(({ place }) => place.querySelector('svg path')).length);
  root.dataset.figures = String(charts.length);
})();
