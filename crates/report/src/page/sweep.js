// Figures against the cache size, as lines that are named at their ends, or, of one size, as bars. In the picture, which
// shows what runs are ranked by, the best and the smallest that comes close are marked, and the others are grey.
const sweeps = (() => {
  'use strict';
  const { style, variable, element, scale, axisOf, apart, base } = drawing;
  const { shown, isSweep } = report;
  const CHARACTER = 7;
  const GAP = 14;

  const isBars = (group, figure) => isSweep(figure) && group.bytes.filter((bytes) => bytes !== null).length < 2;
  const isMarked = (group, figure, label) => figure.form === 'picture' && group.winners.some(([winner]) => winner === label);
  // What a line looks like: in the picture it is grey unless it is marked, elsewhere as everywhere.
  const look = (group, figure, label) => {
    const own = style(label);
    const context = figure.form === 'picture' && group.winners.length > 0 && !isMarked(group, figure, label);
    return context ? { ...own, line: variable('--context'), text: variable('--soft'), width: 1.5 } : { ...own, line: own.colour, text: own.colour, width: figure.form === 'picture' ? 3 : 2 };
  };
  const short = (name, characters) => (name.length > characters ? `${name.slice(0, characters - 1)}…` : name);

  const hint = (group, figure, box, drawn) => ({
    ...box,
    trigger: 'item',
    formatter: ({ seriesName, data }) => {
      const made = element('div');
      made.append(element('strong', group.sizes[data.size] || ''), element('div', `${seriesName}: ${shown(figure, data.raw)}`));
      // The others of that size, the best first.
      const others = drawn.flatMap((line) => line.points.filter(([size]) => size === data.size).map(([, value]) => [line.name, value]));
      others.sort((a, b) => (figure.more ? b[1] - a[1] : a[1] - b[1]));
      others.filter(([name]) => name !== seriesName).slice(0, 8).forEach(([name, value]) => made.append(element('div', `${name}: ${shown(figure, value)}`)));
      return made;
    },
  });

  const bars = (group, figure, drawn, narrow) => {
    const { ink, text, axis, tooltip, grid } = base(narrow);
    const all = drawn.map((line) => ({ ...line, value: line.points[line.points.length - 1][1], size: line.points[line.points.length - 1][0] }));
    all.sort((a, b) => (figure.more ? b.value - a.value : a.value - b.value));
    const scaled = scale(all.map(({ value }) => value), { whole: figure.show === 'count' });
    const room = Math.min(narrow ? 130 : 260, 12 + CHARACTER * Math.max(...all.map(({ name }) => name.length)));
    return {
      animation: false,
      textStyle: text,
      tooltip: { ...hint(group, figure, tooltip, drawn), axisPointer: { type: 'none' } },
      grid: { ...grid, right: 84 },
      xAxis: { ...axisOf(scaled, axis, (x) => shown(figure, x, 3)), name: figure.axis, nameGap: 24 },
      yAxis: { ...axis, type: 'category', inverse: true, data: all.map(({ name }) => name), axisTick: { show: false }, axisLine: { show: false }, splitLine: { show: false }, axisLabel: { ...axis.axisLabel, color: ink, width: room, overflow: 'break', lineHeight: 14, interval: 0 } },
      series: [{
        type: 'bar',
        data: all.map((line, i) => ({ value: [scaled.to(line.value), i], raw: line.value, size: line.size, itemStyle: { color: look(group, figure, line.label).line }, label: { show: true, position: 'right', color: ink, fontWeight: isMarked(group, figure, line.label) ? 'bold' : 'normal', fontSize: text.fontSize, formatter: () => shown(figure, line.value) } })),
        barMaxWidth: 20,
        emphasis: { disabled: true },
      }],
    };
  };

  const option = (group, figure, drawn, narrow) => {
    const { text, axis, tooltip, grid } = base(narrow);
    const place = (size) => (group.bytes[size] === null ? null : Math.log2(group.bytes[size]));
    const places = group.bytes.map((_, size) => place(size)).filter((x) => x !== null);
    const [first, last] = [Math.min(...places), Math.max(...places)];
    const pad = 0.04 * (last - first);
    const isPicture = figure.form === 'picture';
    // Below the lowest there is room for what marks it. The second mark is on the other side, so that the two never meet.
    const scaled = scale(drawn.flatMap((line) => line.points.map((point) => point[1])), { log: figure.log, whole: figure.show === 'count', room: isPicture && !figure.more ? 0.12 : 0 });
    const characters = narrow ? 12 : 26;
    const room = 14 + CHARACTER * Math.max(...drawn.map(({ name }) => Math.min(characters, name.length)));
    const series = drawn.map((line) => {
      const { line: colour, text: ink, width, dash, symbol } = look(group, figure, line.label);
      const item = ([size, y]) => ({ value: [place(size), scaled.to(y)], raw: y, size });
      let points = line.points.filter(([size]) => place(size) !== null).map(item);
      const without = line.points.find(([size]) => place(size) === null);
      // Without a cache it is the same at any size.
      const level = points.length === 0 && without;
      if (level) points = [first, last].map((x) => ({ value: [x, scaled.to(without[1])], raw: without[1], size: without[0] }));
      const end = points.length - 1;
      points[end] = { ...points[end], label: { show: true, position: 'right', distance: isMarked(group, figure, line.label) ? 13 : 8, color: ink, fontSize: text.fontSize, fontWeight: isMarked(group, figure, line.label) ? 'bold' : 'normal', formatter: short(line.name, characters) } };
      return {
        type: 'line',
        name: line.name,
        data: points,
        symbol: level ? 'circle' : `path://${symbol}`,
        symbolSize: level ? 1 : isPicture && width < 2 ? 6 : 9,
        symbolKeepAspect: true,
        showAllSymbol: true,
        itemStyle: { color: colour },
        lineStyle: { color: colour, width, type: level ? [4, 4] : isPicture || dash.length === 0 ? 'solid' : dash },
        z: isMarked(group, figure, line.label) ? 4 : 2,
        triggerLineEvent: true,
        emphasis: { focus: 'none', scale: false, itemStyle: { color: style(line.label).colour }, lineStyle: { color: style(line.label).colour, width: 3 } },
      };
    });
    const marks = !isPicture ? [] : [
      ...group.winners.slice(0, 1).map(([label, size]) => [label, size, group.winners.length > 1 ? 'tie' : 'best']),
      ...(group.knee ? [[...group.knee, 'within 10 %']] : []),
    ];
    marks.forEach(([label, size, word], nth) => {
      const line = drawn.find((other) => other.label === label);
      const point = line && line.points.find(([at]) => at === size);
      if (!point || place(size) === null) return;
      const colour = style(label).colour;
      const near = (place(size) - first) / (last - first || 1);
      series.push({
        type: 'line',
        name: line.name,
        silent: true,
        data: [{ value: [place(size), scaled.to(point[1])], raw: point[1], size }],
        symbol: 'circle',
        symbolSize: 18,
        itemStyle: { color: 'transparent', borderColor: colour, borderWidth: 2 },
        z: 5,
        label: { show: true, position: Boolean(figure.more) === (nth === 0) ? 'top' : 'bottom', align: near > 0.8 ? 'right' : near < 0.2 ? 'left' : 'center', offset: [near > 0.8 ? 0 : near < 0.2 ? -8 : 0, 0], color: colour, fontWeight: 'bold', fontSize: text.fontSize, textBorderColor: tooltip.backgroundColor, textBorderWidth: 3, formatter: `${word}: ${group.sizes[size]}, ${shown(figure, point[1])}` },
        emphasis: { disabled: true },
      });
    });
    const sizeOf = (x) => group.sizes[group.bytes.findIndex((bytes) => bytes !== null && Math.abs(Math.log2(bytes) - x) < 1e-6)] || '';
    return {
      animation: false,
      textStyle: text,
      tooltip: hint(group, figure, tooltip, drawn),
      grid: { ...grid, right: room, top: marks.length > 1 ? 34 : 16 },
      xAxis: { ...axis, type: 'value', min: first - pad, max: last + pad, name: 'cache size', nameGap: 24, splitLine: { show: false }, axisTick: { customValues: places }, axisLabel: { ...axis.axisLabel, customValues: places, hideOverlap: true, formatter: sizeOf } },
      yAxis: { ...axisOf(scaled, axis, (y) => shown(figure, y, 3)), name: figure.title.toLowerCase().startsWith(figure.axis) ? '' : figure.axis, nameGap: 12, axisLine: { show: false } },
      series,
    };
  };

  // Names at the ends of lines do not lie on each other; those for which there is no room are left out, marked ones last.
  const after = (group, figure, drawn) => (instance) => {
    const { series } = instance.getOption();
    const ends = drawn.map((line, i) => ({ line, i, data: series[i].data }))
      .filter(({ data }) => data.length > 0);
    const height = instance.getHeight();
    const [top, bottom] = [10, height - 48];
    const most = Math.floor((bottom - top) / GAP);
    const order = [...ends].sort((a, b) => isMarked(group, figure, b.line.label) - isMarked(group, figure, a.line.label));
    const named = order.slice(0, most);
    const y = ({ data }) => instance.convertToPixel({ gridIndex: 0 }, data[data.length - 1].value)[1];
    const moved = apart(named.map(y), GAP, top, bottom);
    const changed = series.map(() => ({}));
    ends.forEach((end) => {
      const at = named.indexOf(end);
      const last = end.data[end.data.length - 1];
      const label = { ...last.label, show: at >= 0, offset: [0, at >= 0 ? moved[at] : 0] };
      changed[end.i] = { data: [...end.data.slice(0, -1), { ...last, label }] };
    });
    return { series: changed };
  };

  const height = (group, figure, drawn) => (width) => {
    if (isBars(group, figure)) return Math.max(120, 64 + 30 * drawn.length);
    // A line each for the names at the ends.
    const names = Math.min(560, 90 + GAP * drawn.length);
    return Math.max(names, figure.form === 'picture' ? (width < 520 ? 340 : 400) : 300);
  };

  const made = (group, figure, drawn) => (isBars(group, figure)
    ? { option: (narrow) => bars(group, figure, drawn, narrow), height: height(group, figure, drawn) }
    : { option: (narrow) => option(group, figure, drawn, narrow), height: height(group, figure, drawn), after: after(group, figure, drawn) });
  return { made };
})();
