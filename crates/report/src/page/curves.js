// Distributions of response times and of wear, a line per policy; and bars of what a figure is made of.
const curves = (() => {
  'use strict';
  const { style, digits, time, element, powers, base } = drawing;
  const { shown, X } = report;
  const { colours } = dumbbells;

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
    const stacked = figure.form === 'stack';
    const across = stacked;
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
    let x = numeric(0, 'x', figure.form === 'wear' ? (v) => digits(v, 5) : (v) => time(v, 3));
    let y = numeric(1, 'y', (v) => shown(figure, v, 3));
    if (figure.form === 'wear') {
      const [from, to] = [Math.min(...values(0)), Math.max(...values(0))];
      Object.assign(x, { min: Math.max(0, Math.floor(from) - 1), max: Math.ceil(to) + 1, minInterval: 1 });
    }
    if (figure.form === 'cdf') Object.assign(y, { min: 0, max: 1 });
    if (figure.show === 'count') y.minInterval = 1;
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
      const { dash, symbol, colour: ofLabel } = style(line.label);
      const colour = stacked ? colours(figure)[line.label] : ofLabel;
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
        symbolSize: dense ? 7 : 9,
        symbolKeepAspect: true,
        showAllSymbol: true,
        connectNulls: false,
        step: figure.form === 'wear' ? 'middle' : false,
        itemStyle: { color: colour },
        lineStyle: { color: colour, width: dense ? 1.4 : 2, type: dash.length > 0 ? dash : 'solid' },
        emphasis: { disabled: true },
      };
    });
    const tooltip = {
      ...box,
      trigger: 'axis',
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

  const made = (group, figure, drawn, labels) => ({ option: (narrow) => option(group, figure, drawn, labels, narrow) });
  return { made };
})();
