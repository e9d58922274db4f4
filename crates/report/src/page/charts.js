// Draws the page's charts from the results and the view that lie in it. Text from the results only ever becomes text.
(() => {
  'use strict';
  const { data, style, digits, time, element, swatch, powers, base, put, show } = drawing;
  const results = data('results');
  const view = data('view');

  // Values.
  const SHOW = {
    time: (x, n) => time(x, n),
    count: (x) => Math.round(x).toLocaleString('en-GB'),
    percent: (x, n) => `${digits(100 * x, n)} %`,
    decimal: (x, n) => digits(x, n),
    rate: (x, n) => digits(x / 1e6, n),
    years: (x, n) => digits(x, n),
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
    debt: (b, i) => b.stale_rows_mean[i],
    rate: (b, i, run, width) => ((b.host_bytes_read[i] + b.host_bytes_written[i]) * 1e9) / width,
  };
  // A series with no more spans than a chart can show.
  const SPANS = 100;
  const coarse = ({ width, bins }) => {
    const count = (Object.values(bins)[0] || []).length;
    const per = Math.ceil(count / SPANS);
    if (per < 2) return { width, bins };
    const merged = {};
    Object.entries(bins).forEach(([key, values]) => {
      const merge = key.endsWith('_max') ? Math.max : (a, b) => a + b;
      merged[key] = [];
      values.forEach((value, i) => {
        const at = Math.floor(i / per);
        // The last may be of fewer.
        const of = key.endsWith('_mean') ? Math.min(per, count - at * per) : 1;
        merged[key][at] = i % per === 0 ? value / of : merge(merged[key][at], value / of);
      });
    });
    return { width: width * per, bins: merged };
  };
  const NOT_WHEN_SATURATED = ['mean', 'max', 'delayed'];

  // The point of a label at a size; where a label has no cache, the one that it has.
  const pointOf = (group, label, size) => {
    const own = group.points.filter((point) => point[1] === label);
    return own.find((p) => p[2] === size) || (own.length === 1 && results[own[0][0]].cache_bytes === null ? own[0] : null);
  };
  const runOf = (group, label, size) => {
    const point = pointOf(group, label, size);
    return point ? results[point[0]] : null;
  };
  // Whether figures lie along the x axis, and labels along the other.
  const isAcross = (figure) => figure.form === 'parts' || figure.form === 'stack';

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
      case 'stack':
        return figure.names.map((name, i) => {
          const points = labels.map((label, y) => [group.points.indexOf(pointOf(group, label, size)), y])
            .filter(([at]) => at >= 0)
            .map(([at, y]) => [figure.values[at][i], y])
            .filter(([x]) => typeof x === 'number');
          return { label: i, name, points };
        }).filter((line) => line.points.some(([x]) => x > 0));
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
          const [list, what] = figure.paths[0];
          if (!run[list] || !run[list].bins) return [];
          if (run.saturated !== null && NOT_WHEN_SATURATED.includes(what)) return [];
          const { width, bins } = coarse(run[list]);
          return (Object.values(bins)[0] || []).map((_, i) => {
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
    stack: { name: '', show: () => (x) => digits(x, 4) },
    cdf: { name: 'response time', show: () => (x) => time(x, 4) },
    tail: { name: 'response time', show: () => (x) => time(x, 4) },
    time: { name: 'simulated time, s', show: () => (x) => `${digits(x, 5)} s` },
    wear: { name: 'erases of a block', show: () => (x) => digits(x, 5) },
  };

  // One of the marks of a line that is too dense to mark each of its points.
  const MARKS = 9;
  const marked = (points, i) => {
    const step = Math.max(1, Math.floor(points.length / MARKS));
    const offset = Math.floor((step * (i % 5)) / 5);
    return points.map((point, n) => (n % step === offset ? { value: point } : { value: point, symbol: 'none' }));
  };

  const option = (group, figure, drawn, labels, narrow) => {
    const { ink, rule, text, axis, tooltip: box, grid } = base(narrow);
    const values = (k) => drawn.flatMap((line) => line.points.map((point) => point[k])).filter((value) => value !== null);
    const xShow = X[figure.form].show(group);
    const across = isAcross(figure);
    const stacked = figure.form === 'stack';
    const figures = values(across ? 0 : 1);
    // Figures that lie close together are told apart better from zero on.
    const spread = figures.length > 0 && Math.max(...figures) >= 8 * Math.min(...figures);
    const isLog = (which) => {
      if (which === 'x' && !across) return figure.form === 'cdf' || figure.form === 'tail';
      return (which === 'x') === across && figure.log && spread;
    };
    const numeric = (k, which, shows) => ({
      ...axis,
      type: isLog(which) ? 'log' : 'value',
      ...(isLog(which) ? powers(values(k)) : {}),
      axisLabel: { ...axis.axisLabel, hideOverlap: true, formatter: shows },
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
    if (figure.form === 'sweep') x = { ...axis, type: 'category', data: group.sizes, boundaryGap: true, splitLine: { show: false } };
    // Behind the longest bar there is room for its figure.
    if (stacked) x.boundaryGap = [0, '9%'];
    if (across) {
      x.axisLabel.formatter = (v) => shown(figure, v, 3);
      const names = labels.map((label) => group.labels[label]);
      const room = Math.min(narrow ? 150 : 190, 10 + 7 * Math.max(...names.map((name) => name.length)));
      y = { ...axis, type: 'category', data: names, inverse: true, splitLine: { show: true, lineStyle: { color: rule } }, axisLabel: { ...axis.axisLabel, color: ink, width: room, overflow: 'break', lineHeight: 14 } };
    }
    Object.assign(x, { name: across ? figure.axis : X[figure.form].name, nameGap: 24 });
    if (!across) Object.assign(y, { name: figure.axis, nameGap: 12 });
    const sum = (y) => drawn.reduce((all, line) => line.points.reduce((most, point) => (point[1] === y ? most + point[0] : most), all), 0);
    const series = drawn.map((line, i) => {
      const { colour, dash, symbol } = style(line.label);
      if (stacked) {
        // The last has what all are together at its end.
        const label = { show: i === drawn.length - 1, position: 'right', color: ink, fontSize: text.fontSize, formatter: ({ value }) => shown(figure, sum(value[1]), 3) };
        return { type: 'bar', name: line.name, stack: 'all', data: line.points, barCategoryGap: '35%', label, itemStyle: { color: colour, borderColor: box.backgroundColor, borderWidth: 0.5 }, emphasis: { disabled: true } };
      }
      const dense = line.points.length > 40;
      return {
        type: 'line',
        name: line.name,
        data: dense ? marked(line.points, line.label) : line.points,
        symbol: `path://${symbol}`,
        symbolSize: across ? 12 : dense ? 7 : 9,
        symbolKeepAspect: true,
        showAllSymbol: true,
        connectNulls: false,
        step: figure.form === 'wear' ? 'middle' : false,
        itemStyle: { color: colour },
        lineStyle: { color: colour, width: across ? 0 : dense ? 1.4 : 2, type: dash.length > 0 ? dash : 'solid' },
        emphasis: { disabled: true },
      };
    });
    const tooltip = {
      ...box,
      trigger: across && !stacked ? 'item' : 'axis',
      axisPointer: stacked ? { type: 'shadow', shadowStyle: { color: rule, opacity: 0.4 } } : box.axisPointer,
      formatter: (items) => {
        const all = Array.isArray(items) ? items : [items];
        const hint = element('div');
        const place = across ? group.labels[labels[all[0].value[1]]] : xShow(all[0].value[0]);
        hint.append(element('strong', place));
        all.forEach((item) => {
          hint.append(element('div', `${item.seriesName}: ${shown(figure, item.value[across ? 0 : 1])}`));
        });
        if (stacked) hint.append(element('div', `together: ${shown(figure, sum(all[0].value[1]))}`));
        return hint;
      },
    };
    return { animation: false, textStyle: text, tooltip, grid, xAxis: x, yAxis: y, series };
  };

  // Words for who cannot see the chart.
  const words = (group, figure, drawn, labels) => {
    const start = `${figure.title}; ${figure.axis}. `;
    if (drawn.length === 0) return `${start}No run has such figures.`;
    const each = drawn.map((line) => {
      const known = line.points.filter((point) => point[1] !== null && point[0] !== null);
      if (figure.form === 'sweep') return `${line.name}: ${known.map(([x, y]) => `${group.sizes[x]} ${shown(figure, y, 3)}`).join(', ')}`;
      if (isAcross(figure)) return `${line.name}: ${known.map(([x, y]) => `${group.labels[labels[y]]} ${shown(figure, x, 3)}`).join(', ')}`;
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
    const across = isAcross(figure);
    head.append(element('th', across ? 'policy' : X[figure.form].name, { scope: 'col' }));
    drawn.forEach((line) => head.append(element('th', line.name, { scope: 'col' })));
    made.append(element('thead'), element('tbody'));
    made.tHead.append(head);
    const [key, value] = across ? [1, 0] : [0, 1];
    const keys = [...new Set(drawn.flatMap((line) => line.points.map((point) => point[key])))].sort((a, b) => a - b);
    const columns = drawn.map((line) => new Map(line.points.map((point) => [point[key], point[value]])));
    const xShow = X[figure.form].show(group);
    keys.forEach((k) => {
      const row = element('tr');
      row.append(element('th', across ? group.labels[labels[k]] : xShow(k), { scope: 'row' }));
      columns.forEach((column) => row.append(element('td', shown(figure, column.get(k)))));
      made.tBodies[0].append(row);
    });
    return made;
  };

  // The charts.
  const charts = [...document.querySelectorAll('figure[data-figure]')].map((box) => {
    const group = view[Number(box.dataset.group)];
    const figure = group.figures.find((f) => f.id === box.dataset.figure);
    const place = box.querySelector('.chart');
    return { box, group, figure, form: figure.form === 'stack' ? 'bars' : figure.form, place, number: Number(box.dataset.group), instance: null };
  });
  const chosen = view.map((group) => ({ size: group.size, labels: group.labels.map((_, i) => i) }));

  const draw = (chart) => {
    const { box, group, figure } = chart;
    const { size, labels } = chosen[chart.number];
    const drawn = lines(group, figure, size, labels);
    const caption = box.querySelector('.size');
    if (caption) caption.textContent = group.sizes.length > 1 || group.sizes[0] !== 'no cache' ? `, ${group.sizes[size]}` : '';
    put(chart, figure.title, {
      option: (narrow) => option(group, figure, drawn, labels, narrow),
      words: words(group, figure, drawn, labels),
      items: drawn,
      table: () => table(group, figure, drawn, labels),
    });
  };
  const forms = [...document.querySelectorAll('form.controls')];
  const marks = () => forms.flatMap((form) => [...form.querySelectorAll('input[type=checkbox]')]);
  marks().forEach((input) => input.after(swatch(Number(input.value))));
  const redraw = show(charts, draw, () => marks().forEach((input) => input.nextElementSibling.replaceWith(swatch(Number(input.value)))));

  // What the reader chooses.
  forms.forEach((form) => {
    form.hidden = form.childElementCount === 0;
    const number = Number(form.dataset.group);
    form.addEventListener('submit', (event) => event.preventDefault());
    form.addEventListener('change', () => {
      const select = form.querySelector('select');
      if (select) chosen[number].size = Number(select.value);
      const boxes = [...form.querySelectorAll('input[type=checkbox]')];
      if (boxes.length > 0) chosen[number].labels = boxes.filter((input) => input.checked).map((input) => Number(input.value));
      redraw(charts.filter((chart) => chart.number === number));
    });
  });

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
        // Runs that are shown apart stay apart.
        [...runs.tBodies].forEach((body) => {
          const rows = [...body.rows].filter((row) => row.cells.length === heads.length);
          rows.sort(compare).forEach((row) => body.append(row));
        });
      });
    });
  });
})();
