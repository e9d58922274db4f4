// A figure over time, a small panel for each policy, with the same axes in all of them.
const panels = (() => {
  'use strict';
  const { style, digits, element, scale, axisOf, base } = drawing;
  const { shown } = report;
  const [NAME, PLOT, BELOW, AXIS] = [20, 84, 14, 34];

  const columns = (drawn, width) => {
    const fitting = Math.max(1, Math.floor((width - 60) / 210));
    const rows = Math.ceil(drawn.length / fitting);
    return Math.max(1, Math.ceil(drawn.length / rows));
  };
  const rows = (drawn, width) => Math.ceil(drawn.length / columns(drawn, width));

  const option = (group, figure, drawn, narrow, width) => {
    const { text, axis, tooltip } = base(narrow);
    const xs = drawn.flatMap((line) => line.points.map((point) => point[0]));
    const scaled = scale(drawn.flatMap((line) => line.points.map((point) => point[1])), { log: figure.log, whole: figure.show === 'count', most: 3 });
    const yAxisOf = axisOf(scaled, axis, (y) => shown(figure, y, 2));
    const count = columns(drawn, width);
    const left = 62;
    const gap = 14;
    const each = (width - left - 12 - gap * (count - 1)) / count;
    const small = { ...text, fontSize: text.fontSize - 1 };
    const characters = Math.max(8, Math.floor(each / 6.6));
    const option = { animation: false, textStyle: text, grid: [], xAxis: [], yAxis: [], series: [], axisPointer: { link: [{ xAxisIndex: 'all' }] } };
    const end = Math.max(...xs) + Math.min(...xs);
    drawn.forEach((line, i) => {
      const [column, row] = [i % count, Math.floor(i / count)];
      const isLowest = i + count >= drawn.length;
      const { colour } = style(line.label);
      option.grid.push({ left: left + column * (each + gap), top: NAME + row * (NAME + PLOT + BELOW), width: each, height: PLOT, outerBoundsMode: 'none' });
      option.xAxis.push({ ...axis, gridIndex: i, type: 'value', min: 0, max: end, splitNumber: 3, splitLine: { show: false }, axisTick: { show: isLowest }, axisLabel: { ...axis.axisLabel, show: isLowest, hideOverlap: true, showMaxLabel: false, fontSize: small.fontSize, formatter: (x) => (x === 0 ? '0' : `${digits(x, 4)} s`) }, axisLine: { onZero: false, lineStyle: { color: axis.axisLine.lineStyle.color } } });
      const name = line.name.length > characters ? `${line.name.slice(0, characters - 1)}…` : line.name;
      option.yAxis.push({ ...yAxisOf, gridIndex: i, axisLine: { show: false }, axisTick: { ...yAxisOf.axisTick, show: false }, axisLabel: { ...yAxisOf.axisLabel, show: column === 0, fontSize: small.fontSize }, name, nameLocation: 'end', nameGap: 5, nameTextStyle: { ...small, color: colour, fontWeight: 'bold', align: 'left' } });
      option.series.push({ type: 'line', name: line.name, xAxisIndex: i, yAxisIndex: i, data: line.points.map(([x, y]) => ({ value: [x, y === null ? null : scaled.to(y)], raw: y })), symbol: 'none', connectNulls: false, lineStyle: { color: colour, width: 1.3 }, itemStyle: { color: colour }, areaStyle: { color: colour, opacity: 0.14, origin: 'start' }, emphasis: { disabled: true } });
    });
    option.tooltip = {
      ...tooltip,
      trigger: 'axis',
      formatter: (items) => {
        const hint = element('div');
        hint.append(element('strong', `${digits(items[0].value[0], 5)} s`));
        items.slice(0, 12).forEach((item) => hint.append(element('div', `${item.seriesName}: ${shown(figure, item.data.raw)}`)));
        return hint;
      },
    };
    return option;
  };

  const made = (group, figure, drawn) => ({
    option: (narrow, width) => option(group, figure, drawn, narrow, width),
    height: (width) => rows(drawn, width) * (NAME + PLOT + BELOW) + AXIS - BELOW,
  });
  return { made };
})();
