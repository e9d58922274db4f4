// What the pages of destage share: colours, marks and numbers, and when charts are drawn. Text from results only ever
// becomes text.
const drawing = (() => {
  'use strict';
  const root = document.documentElement;
  root.dataset.errors = '0';
  const fail = (message) => {
    root.dataset.errors = String(Number(root.dataset.errors) + 1);
    const box = document.getElementById('failure');
    box.hidden = false;
    box.textContent = `The charts could not be drawn: ${message}`;
  };
  // That a frame was resized while a chart was drawn, as within a notebook, is reported as an error, and is none: it is drawn next.
  window.addEventListener('error', (event) => {
    if (!event.message.startsWith('ResizeObserver loop')) fail(event.message);
  });

  const data = (id) => JSON.parse(document.getElementById(id).textContent);

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
  // What is read, written, collected and the rest have colours that no policy has. Further parts of the same are paler.
  const role = (name, nth = 0) => {
    const colour = variable(`--${name}`);
    return nth === 0 ? colour : `color-mix(in srgb, ${colour} ${Math.max(25, 100 - 38 * nth)}%, ${variable('--paper')})`;
  };
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
  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  };

  // A line's mark, or that of bars or of points alone.
  const swatch = (i, form, own) => {
    const { colour: ofLabel, dash, symbol } = style(i);
    const colour = own || ofLabel;
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    const add = (name, attributes) => {
      const made = document.createElementNS(space, name);
      Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
      svg.append(made);
    };
    const size = { width: 40, height: 12, viewBox: '-20 -6 40 12', 'aria-hidden': 'true' };
    Object.entries(size).forEach(([key, value]) => svg.setAttribute(key, value));
    if (form === 'bars') {
      add('rect', { x: -14, y: -5, width: 28, height: 10, fill: colour });
      return svg;
    }
    if (form === 'dots') {
      add('circle', { cx: 0, cy: 0, r: 5, fill: colour });
      return svg;
    }
    if (form !== 'parts') add('line', { x1: -20, x2: 20, y1: 0, y2: 0, stroke: colour, 'stroke-width': 2, 'stroke-dasharray': dash.join(',') || 'none' });
    add('path', { d: symbol, fill: colour, transform: 'scale(0.8)' });
    return svg;
  };

  // Items have a name and the number of their colour.
  const legend = (items, form) => {
    const list = element('div', undefined, { class: `legend ${form}` });
    items.forEach(({ label, name, colour }) => {
      const item = element('span');
      item.append(swatch(label, form, colour), ` ${name}`);
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

  // An axis as tight as its values, whose ticks are 1, 2 and 5 times powers of ten, or whole steps from zero on.
  // `to` is where a value lies on it. `whole`: only whole numbers are told. What lies close together is told apart
  // better from zero on.
  const SPREAD = 8;
  const scale = (values, { log = false, whole = false, room = 0, most: many = 8 } = {}) => {
    const known = values.filter((value) => value !== null && Number.isFinite(value));
    const most = Math.max(0, ...known);
    const least = Math.min(...known);
    if (log && least > 0 && most >= SPREAD * least) {
      const [a, b] = [Math.log10(least), Math.log10(most)];
      const pad = 0.04 * (b - a);
      const [min, max] = [a - pad - room * (b - a), b + pad];
      const to = (x) => (x > 0 ? Math.log10(x) : null);
      // As fine as there is room for.
      const ticksOf = ([every, steps]) => {
        const all = [];
        for (let power = Math.floor(min); power <= max; power += 1) if (power % every === 0) all.push(...steps.map((step) => to(step * 10 ** power)));
        return all.filter((tick) => tick >= min && tick <= max);
      };
      const choices = [[1, [1, 2, 5]], [1, [1, 3]], [1, [1]], [2, [1]], [3, [1]]].map(ticksOf);
      return { to, from: (x) => 10 ** x, min, max, ticks: choices.find((ticks) => ticks.length <= many) || choices[choices.length - 1] };
    }
    const same = (x) => x;
    if (most === 0) return { to: same, from: same, min: 0, max: 1, ticks: [0] };
    const rough = most / Math.min(4, many);
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
    if (whole) step = Math.max(1, Math.ceil(step));
    const max = step * Math.ceil((most / step) * 1.0001);
    const ticks = [];
    for (let i = 0; i * step <= max * 1.0001; i += 1) ticks.push(i * step);
    return { to: same, from: same, min: 0, max, ticks };
  };
  // The same for ECharts.
  const axisOf = (scaled, axis, shows) => ({
    ...axis,
    type: 'value',
    min: scaled.min,
    max: scaled.max,
    axisTick: { customValues: scaled.ticks },
    axisLabel: { ...axis.axisLabel, customValues: scaled.ticks, hideOverlap: true, formatter: (x) => shows(Number(scaled.from(x).toPrecision(6))) },
  });

  // Moves labels apart that lie closer than `gap`, as little as it takes, between `top` and `bottom`: what each is moved by.
  const apart = (ys, gap, top, bottom) => {
    const order = ys.map((_, i) => i).sort((a, b) => ys[a] - ys[b]);
    const at = [...ys];
    order.forEach((i, n) => {
      at[i] = Math.max(at[i], n === 0 ? top : at[order[n - 1]] + gap);
    });
    [...order].reverse().forEach((i, n, all) => {
      at[i] = Math.min(at[i], n === 0 ? bottom : at[all[n - 1]] - gap);
    });
    return ys.map((y, i) => at[i] - y);
  };

  let printing = false;
  // What all axes and tooltips have in common. Charts are lower on paper, where an axis has less room for its title.
  const base = (narrow) => {
    const [ink, soft, rule, paper] = ['--ink', '--soft', '--line', '--paper'].map(variable);
    const text = { color: ink, fontSize: narrow ? 11 : 12, fontFamily: getComputedStyle(document.body).fontFamily };
    const axis = { axisLabel: { ...text, color: soft }, nameTextStyle: { ...text, fontSize: printing ? 10 : text.fontSize }, nameLocation: 'middle', axisLine: { show: true, lineStyle: { color: soft } }, splitLine: { lineStyle: { color: rule } } };
    const tooltip = { backgroundColor: paper, borderColor: rule, textStyle: { ...text, fontSize: 12 }, confine: true, axisPointer: { lineStyle: { color: soft } } };
    const grid = { left: 8, right: 24, top: 12, bottom: 8, outerBoundsMode: 'same', outerBoundsContain: 'all' };
    return { ink, soft, rule, text, axis, tooltip, grid };
  };

  // Draws one chart: {box, place, form, instance} in its figure. `made` is what it shows: {option, words, items, table}, where
  // `table` makes the same as a table, for those who open it. It may have {none}, a sentence in place of a chart
  // without anything to show, {height} by width, and {after}, which changes the option once places are known.
  const put = (chart, title, made) => {
    const { box, place } = chart;
    let none = box.querySelector('.none');
    if (!none) place.before(none = element('p', '', { class: 'none note' }));
    none.textContent = made.none || '';
    none.hidden = !made.none;
    place.hidden = Boolean(made.none);
    place.setAttribute('aria-label', made.words);
    if (!made.none) {
      const width = printing ? 660 : place.clientWidth;
      if (made.height) {
        const height = made.height(width);
        place.style.height = `${height}px`;
        chart.printed = height;
      }
      if (!chart.instance) chart.instance = echarts.init(place, null, { renderer: 'svg' });
      chart.instance.resize(printing ? { width, height: chart.printed || 250 } : { width: 'auto', height: 'auto' });
      chart.instance.setOption(made.option(width < 520, width), { notMerge: true });
      if (made.after) chart.instance.setOption(made.after(chart.instance));
      chart.instance.getZr().flush();
    }
    const before = box.querySelector('.legend');
    if (before) before.remove();
    if (made.items.length > 0) place.after(legend(made.items, chart.form));
    const details = box.querySelector('details');
    const scroll = details.querySelector('.scroll');
    scroll.setAttribute('aria-label', `${title}, data`);
    scroll.replaceChildren();
    const fill = () => {
      if (details.open && scroll.childElementCount === 0) scroll.append(made.table());
    };
    details.ontoggle = fill;
    fill();
  };

  // Draws all charts, now and whenever colours, width or paper change. Returns what draws some of them again.
  const show = (charts, draw, recoloured = () => {}) => {
    const redraw = (some) => some.forEach((chart) => {
      try {
        draw(chart);
      } catch (error) {
        fail(error.message);
      }
    });
    const theme = document.getElementById('theme');
    const nameTheme = () => {
      theme.textContent = isDark() ? 'Light' : 'Dark';
      theme.setAttribute('aria-label', `Change to ${isDark() ? 'light' : 'dark'} colours`);
    };
    const recolour = () => {
      nameTheme();
      recoloured();
      redraw(charts);
    };
    theme.hidden = false;
    theme.addEventListener('click', () => {
      root.dataset.theme = isDark() ? 'light' : 'dark';
      recolour();
    });
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
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
    redraw(charts);
    const resized = new ResizeObserver((entries) => {
      if (printing) return;
      redraw(entries.map(({ target }) => charts.find(({ place }) => place === target))
        .filter((chart) => chart.instance && chart.instance.getWidth() !== chart.place.clientWidth));
    });
    charts.forEach(({ place }) => resized.observe(place));
    root.dataset.charts = String(charts.filter(({ place }) => place.querySelector('svg path')).length);
    root.dataset.figures = String(charts.length);
    return redraw;
  };

  return { data, style, role, variable, digits, time, element, swatch, powers, scale, axisOf, apart, base, put, show };
})();
