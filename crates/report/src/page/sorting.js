// Sorts the tables of runs by a column: a whole heading is the button. Runs that are shown apart stay apart.
(() => {
  'use strict';
  const { element } = drawing;
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
        [...runs.tBodies].forEach((body) => {
          const rows = [...body.rows].filter((row) => row.cells.length === heads.length);
          rows.sort(compare).forEach((row) => body.append(row));
        });
      });
    });
  });
})();
