// The results and the view that lie in the page, and what each chart shows of them: as lines, in words, and as a table.
// Text from the results only ever becomes text.
const report = (() => {
  'use strict';
  const { data, digits, time, element } = drawing;
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
    wa: (b, i) => per(b.flash_writes[i], b.write_pages[i]),
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
  const isSweep = (figure) => figure.form === 'sweep' || figure.form === 'picture';
  // Whether figures lie along the x axis, and labels along the other.
  const isAcross = (figure) => figure.form === 'parts' || figure.form === 'stack';

  // The lines of a figure: {label, name, points: [[x, y], ...]}.
  const lines = (group, figure, size, labels) => {
    const of = (points) => labels.map((label) => {
      const run = runOf(group, label, size);
      return { label, name: group.labels[label], points: run ? points(run) : [] };
    }).filter((line) => line.points.length > 0);
    switch (figure.form) {
      case 'picture':
        return labels.map((label) => {
          const points = group.points.map((p, i) => [p[2], figure.values[i], p[1]])
            .filter((p) => p[2] === label && typeof p[1] === 'number')
            .map(([size, value]) => [size, value])
            .sort((a, b) => a[0] - b[0]);
          return { label, name: group.labels[label], points };
        }).filter((line) => line.points.length > 0);
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
    picture: { name: 'cache size', show: (group) => (x) => group.sizes[x] },
    sweep: { name: 'cache size', show: (group) => (x) => group.sizes[x] },
    parts: { name: '', show: () => (x) => time(x, 4) },
    stack: { name: '', show: () => (x) => digits(x, 4) },
    cdf: { name: 'response time', show: () => (x) => time(x, 4) },
    tail: { name: 'response time', show: () => (x) => time(x, 4) },
    time: { name: 'simulated time, s', show: () => (x) => `${digits(x, 5)} s` },
    wear: { name: 'erases of a block', show: () => (x) => digits(x, 5) },
  };

  // Words for who cannot see the chart, the best first.
  const verdict = (group, figure) => {
    if (figure.form !== 'picture' || group.winners.length === 0) return '';
    const names = group.winners.map(([label, size]) => `${group.labels[label]}, ${group.sizes[size]}`);
    const knee = group.knee ? ` The smallest that comes close: ${group.labels[group.knee[0]]}, ${group.sizes[group.knee[1]]}.` : '';
    return `Best: ${names.join('; ')}.${knee} `;
  };
  const words = (group, figure, drawn, labels) => {
    const start = `${figure.title}; ${figure.axis}. ${verdict(group, figure)}`;
    if (drawn.length === 0) return `${start}No run has such figures.`;
    const each = drawn.map((line) => {
      const known = line.points.filter((point) => point[1] !== null && point[0] !== null);
      if (isSweep(figure)) return `${line.name}: ${known.map(([x, y]) => `${group.sizes[x]} ${shown(figure, y, 3)}`).join(', ')}`;
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

  return { view, results, shown, lines, words, table, isAcross, isSweep, X };
})();
