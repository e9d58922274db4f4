// Several figures of each policy on one line, joined: how far apart they are is what is to be seen.
const dumbbells = (() => {
  'use strict';
  const { role, element, scale, axisOf, base } = drawing;
  const { shown } = report;
  const ROW = 30;

  const colours = (figure) => figure.roles.map((name, i) => role(name, figure.roles.slice(0, i).filter((other) => other === name).length));

  const option = (group, figure, drawn, labels, narrow, width) => {
    const { ink, soft, rule, text, axis, tooltip, grid } = base(narrow);
    const isTight = width < 430;
    const values = drawn.flatMap((line) => line.points.map((point) => point[0]));
    const rows = [...new Set(drawn.flatMap((line) => line.points.map((point) => point[1])))];
    const of = (row) => drawn.flatMap((line) => line.points.filter((point) => point[1] === row).map((point) => point[0]));
    const [plain, rest] = [true, false].map((is) => drawn.filter((line) => (figure.roles[line.label] === 'other') === is));
    // How many times as long as without what is asked about, at worst; nothing where that makes it no longer.
    const factorOf = (row) => {
      const [without, all] = [plain, rest].map((lines) => Math.max(...lines.flatMap((line) => line.points.filter((point) => point[1] === row).map((point) => point[0]))));
      const factor = all / without;
      return without > 0 && factor >= 1.05 ? ` (× ${factor.toFixed(factor < 9.95 ? 1 : 0)})` : '';
    };
    // The longest last.
    rows.sort((a, b) => Math.max(...of(a)) - Math.max(...of(b)));
    const names = rows.map((row) => group.labels[labels[row]]);
    const room = Math.min(narrow ? 110 : 220, 12 + 7 * Math.max(...names.map((name) => name.length)));
    const scaled = scale(values, { log: figure.log, most: Math.max(2, Math.floor((width - room - 120) / 62)) });
    const joints = rows.map((row, y) => {
      const all = of(row);
      return { type: 'line', silent: true, data: [[scaled.to(Math.min(...all)), y], [scaled.to(Math.max(...all)), y]], symbol: 'none', lineStyle: { color: soft, width: 3, opacity: 0.45 }, emphasis: { disabled: true } };
    });
    const dots = drawn.map((line) => ({
      type: 'line',
      name: line.name,
      data: line.points.map(([x, row]) => {
        const y = rows.indexOf(row);
        const factor = factorOf(row);
        const label = { show: x === Math.max(...of(row)), position: 'right', distance: 8, color: ink, fontSize: text.fontSize, formatter: isTight && factor ? factor.trim().slice(1, -1) : `${shown(figure, x, 3)}${factor}` };
        return { value: [scaled.to(x), y], raw: x, row, label };
      }),
      symbol: 'circle',
      symbolSize: 13,
      showAllSymbol: true,
      itemStyle: { color: colours(figure)[line.label], borderColor: tooltip.backgroundColor, borderWidth: 1.5 },
      lineStyle: { width: 0 },
      z: 4,
      emphasis: { disabled: true },
    }));
    return {
      animation: false,
      textStyle: text,
      tooltip: {
        ...tooltip,
        trigger: 'item',
        formatter: ({ seriesName, data }) => {
          const hint = element('div');
          hint.append(element('strong', group.labels[labels[data.row]]), element('div', `${seriesName}: ${shown(figure, data.raw)}`));
          return hint;
        },
      },
      grid: { ...grid, right: isTight ? 64 : 116 },
      xAxis: { ...axisOf(scaled, axis, (x) => shown(figure, x, 3)), name: figure.axis, nameGap: 24 },
      yAxis: { ...axis, type: 'category', data: names, inverse: true, axisTick: { show: false }, axisLine: { show: false }, splitLine: { show: true, lineStyle: { color: rule } }, axisLabel: { ...axis.axisLabel, color: ink, width: room, overflow: 'break', lineHeight: 14, interval: 0 } },
      series: [...joints, ...dots],
    };
  };

  const made = (group, figure, drawn, labels) => ({
    option: (narrow, width) => option(group, figure, drawn, labels, narrow, width),
    height: () => 70 + ROW * Math.max(1, new Set(drawn.flatMap((line) => line.points.map((point) => point[1]))).size),
  });
  return { made, colours };
})();
