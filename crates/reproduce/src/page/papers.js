// Draws the figures of papers: lines along buffer sizes or variants, bars along workloads or policies.
(() => {
  'use strict';
  const { data, style, element, powers, base, put, show } = drawing;
  const panels = data('panels');

  const shown = (panel, x) => (x === null ? '–' : x.toLocaleString('en-GB', { minimumFractionDigits: panel.places, maximumFractionDigits: panel.places }));
  const short = (x) => (x === 0 ? '0' : Number(x.toPrecision(3)).toLocaleString('en-GB', { maximumSignificantDigits: 3 }));
  const full = (panel, line, i) => {
    if (line.mean[i] === null) return '–';
    return line.half[i] > 0 ? `${shown(panel, line.mean[i])} ± ${shown(panel, line.half[i])}` : shown(panel, line.mean[i]);
  };

  const option = (panel, narrow) => {
    const { ink, rule, text, axis, tooltip: box, grid } = base(narrow);
    const values = panel.lines.flatMap((line) => line.mean).filter((x) => x !== null);
    // Lines that lie far apart are told apart on a log axis; bars begin at zero.
    const isLog = !panel.bars && values.length > 0 && values.every((x) => x > 0) && Math.max(...values) > 20 * Math.min(...values);
    // A bar that would dwarf all others is cut off, and says how long it is.
    const median = [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
    const most = panel.bars && Math.max(...values) > 8 * median ? 4 * median : Infinity;
    const cut = (x) => (x === null || x <= most ? x : { value: most, label: { show: true, position: 'insideRight', color: '#fff', fontSize: 10, formatter: `${short(x)} »` } });
    const numbers = {
      ...axis,
      type: isLog ? 'log' : 'value',
      ...(isLog ? powers(values) : {}),
      name: panel.axis,
      nameGap: panel.bars ? 24 : 12,
      axisLabel: { ...axis.axisLabel, hideOverlap: true, formatter: short },
    };
    const steps = { ...axis, type: 'category', data: panel.steps, splitLine: { show: false } };
    if (panel.bars) {
      Object.assign(steps, { inverse: true, axisLabel: { ...axis.axisLabel, color: ink, width: narrow ? 120 : 190, overflow: 'break', lineHeight: 14, interval: 0 } });
    }
    const series = panel.lines.map((line, i) => {
      const { colour, dash, symbol } = style(i);
      if (panel.bars) {
        return { type: 'bar', name: line.name, data: line.mean.map(cut), itemStyle: { color: colour }, barGap: '0%', barCategoryGap: '22%', emphasis: { disabled: true } };
      }
      return {
        type: 'line',
        name: line.name,
        data: line.mean,
        symbol: `path://${symbol}`,
        symbolSize: 9,
        symbolKeepAspect: true,
        showAllSymbol: true,
        connectNulls: false,
        itemStyle: { color: colour },
        lineStyle: { color: colour, width: 2, type: dash.length > 0 ? dash : 'solid' },
        emphasis: { disabled: true },
      };
    });
    const tooltip = {
      ...box,
      trigger: 'axis',
      axisPointer: panel.bars ? { type: 'shadow', shadowStyle: { color: rule, opacity: 0.4 } } : box.axisPointer,
      formatter: (items) => {
        const hint = element('div');
        hint.append(element('strong', panel.steps[items[0].dataIndex]));
        items.forEach((item) => hint.append(element('div', `${item.seriesName}: ${full(panel, panel.lines[item.seriesIndex], item.dataIndex)}`)));
        return hint;
      },
    };
    const [xAxis, yAxis] = panel.bars ? [numbers, steps] : [steps, numbers];
    return { animation: false, textStyle: text, tooltip, grid, xAxis, yAxis, series };
  };

  const words = (panel) => {
    const each = panel.lines.map((line) => `${line.name}: ${panel.steps.map((step, i) => `${step} ${full(panel, line, i)}`).join(', ')}`);
    return `${panel.title}; ${panel.axis}. ${each.join('. ')}.`;
  };

  const table = (panel) => {
    const made = element('table');
    made.append(element('caption', `${panel.title}; ${panel.axis}`, { class: 'note' }), element('thead'), element('tbody'));
    const head = element('tr');
    head.append(element('th', '', { scope: 'col' }), ...panel.lines.map((line) => element('th', line.name, { scope: 'col' })));
    made.tHead.append(head);
    panel.steps.forEach((step, i) => {
      const row = element('tr');
      row.append(element('th', step, { scope: 'row' }), ...panel.lines.map((line) => element('td', full(panel, line, i))));
      made.tBodies[0].append(row);
    });
    return made;
  };

  const charts = [...document.querySelectorAll('figure[data-panel]')].map((box) => {
    const panel = panels[Number(box.dataset.panel)];
    const place = box.querySelector('.chart');
    return { box, place, panel, form: panel.bars ? 'bars' : 'lines', printed: panel.bars ? place.clientHeight : 250, instance: null };
  });
  show(charts, (chart) => {
    const { panel } = chart;
    put(chart, panel.title, {
      option: (narrow) => option(panel, narrow),
      words: words(panel),
      items: panel.lines.map(({ name }, label) => ({ label, name })),
      table: () => table(panel),
    });
  });
})();
