// Draws the page's charts, and again when the reader chooses what they show.
(() => {
  'use strict';
  const { swatch, put, show } = drawing;
  const { view, lines, words, table, isSweep } = report;

  // The charts.
  const charts = [...document.querySelectorAll('figure[data-figure]')].map((box) => {
    const group = view[Number(box.dataset.group)];
    const figure = group.figures.find((f) => f.id === box.dataset.figure);
    const place = box.querySelector('.chart');
    return { box, group, figure, form: figure.form === 'stack' ? 'bars' : figure.form === 'parts' ? 'dots' : 'lines of-policies', place, number: Number(box.dataset.group), instance: null };
  });
  const chosen = view.map((group) => ({ size: group.size, labels: group.labels.map((_, i) => i) }));

  const drawers = { picture: sweeps, sweep: sweeps, parts: dumbbells, time: panels };

  const draw = (chart) => {
    const { box, group, figure } = chart;
    const { size, labels } = chosen[chart.number];
    const drawn = lines(group, figure, size, labels);
    const caption = box.querySelector('.size');
    if (caption) caption.textContent = group.sizes.length > 1 || group.sizes[0] !== 'no cache' ? `, ${group.sizes[size]}` : '';
    const isOfParts = figure.form === 'parts' || figure.form === 'stack';
    const colours = isOfParts ? dumbbells.colours(figure) : [];
    const nothing = labels.length === 0 ? 'Nothing is chosen above.' : 'No run of this size that is chosen above has such figures.';
    // Where no request waited for a collection, p99.9 is the same with and without.
    const [all, without] = figure.id === 'gc-tail' && drawn.length === 2 ? drawn.map((line) => line.points) : [[], []];
    const isSame = all.length > 0 && all.every(([x, y]) => without.some(([u, v]) => y === v && x === u));
    put(chart, figure.title, {
      ...(drawers[figure.form] || curves).made(group, figure, drawn, labels),
      none: drawn.length === 0 ? nothing : isSame ? 'At this size collection makes no difference to p99.9.' : '',
      words: words(group, figure, drawn, labels),
      // Lines are named at their ends, panels above them.
      items: isSweep(figure) || figure.form === 'time' ? [] : drawn.map((line) => ({ ...line, colour: colours[line.label] })),
      table: () => table(group, figure, drawn, labels),
    });
  };
  const forms = [...document.querySelectorAll('form.controls')];
  const boxesOf = (form) => [...form.querySelectorAll('input[type=checkbox]')];
  const ticked = (boxes) => boxes.filter((input) => input.checked).map((input) => Number(input.value));
  // A page that is loaded again may keep what was ticked.
  forms.forEach((form) => {
    const boxes = boxesOf(form);
    if (boxes.length > 0) chosen[Number(form.dataset.group)].labels = ticked(boxes);
  });
  const marks = () => forms.flatMap(boxesOf);
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
      const boxes = boxesOf(form);
      if (boxes.length > 0) chosen[number].labels = ticked(boxes);
      redraw(charts.filter((chart) => chart.number === number));
    });
  });
})();
