// Runs in every page before its own scripts: time stands still but for `recorder.frame`, which moves timers, dates and
// animations on; links and forms do not open a page but say which one is to be opened.
(() => {
  const timers = new Map(), starts = new WeakMap(), numbers = new WeakMap();
  let now = Number(sessionStorage.recorderNow || 0), last = 0, fired = 0, mutations = 0, elements = 0, wanted = null;
  const later = (repeat) => (task, delay = 0, ...rest) => {
    const step = Math.max(Number(delay) || 0, repeat ? 1 : 0);
    timers.set(++last, {at: now + step, every: repeat ? step : null, run: () => task(...rest)});
    return last;
  };
  window.setTimeout = later(false);
  window.setInterval = later(true);
  window.clearTimeout = window.clearInterval = (id) => timers.delete(id);
  window.requestAnimationFrame = (task) => window.setTimeout(() => task(now), 16);
  window.cancelAnimationFrame = window.clearTimeout;
  const Real = Date, epoch = Real.UTC(2025, 2, 3, 9, 30);
  window.Date = class extends Real {
    constructor(...parts) { if (parts.length) super(...parts); else super(epoch + now); }
    static now() { return epoch + now; }
  };
  window.performance.now = () => now;
  window.go = (address) => { wanted = new URL(address, location.href).href; };
  window.addEventListener('click', (event) => {
    const link = event.target.closest && event.target.closest('a[href]');
    if (!link || event.defaultPrevented) return;
    event.preventDefault();
    if (!link.getAttribute('href').startsWith('#')) window.go(link.href);
  });
  window.addEventListener('submit', (event) => {
    if (!event.defaultPrevented && event.target.getAttribute('action')) window.go(event.target.action);
    event.preventDefault();
  });
  const observer = new MutationObserver((records) => { mutations += records.length; });
  observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  const caret = new CSSStyleSheet();
  caret.replaceSync('* { caret-animation: manual !important } :root * { caret-color: transparent !important }');
  document.adoptedStyleSheets = [caret];

  const number = (node) => {
    if (!node) return 0;
    if (!numbers.has(node)) numbers.set(node, ++elements);
    return numbers.get(node);
  };
  const endless = (animation) => !isFinite(animation.effect.getComputedTiming().endTime);
  const runTimers = () => {
    for (;;) {
      const due = [...timers].filter(([, timer]) => timer.at <= now).sort((a, b) => a[1].at - b[1].at || a[0] - b[0])[0];
      if (!due) return;
      const [id, timer] = due;
      if (timer.every === null) timers.delete(id); else timer.at += timer.every;
      fired += 1;
      timer.run();
    }
  };
  const moveAnimations = () => {
    const running = document.getAnimations();
    for (const animation of running) {
      if (!starts.has(animation)) starts.set(animation, now);
      const elapsed = now - starts.get(animation);
      if (elapsed >= animation.effect.getComputedTiming().endTime) animation.finish();
      else { animation.pause(); animation.currentTime = elapsed; }
    }
    return running;
  };
  const isField = (node) => node && node.matches('input:not([type=checkbox]):not([type=radio]), textarea, [contenteditable]');
  const shape = (x, y) => {
    const node = document.elementFromPoint(x, y);
    if (!node) return 'arrow';
    const style = getComputedStyle(node);
    if (style.cursor === 'pointer') return 'hand';
    if (style.cursor === 'text') return 'beam';
    if (style.cursor !== 'auto' || style.userSelect === 'none') return 'arrow';
    const at = document.caretRangeFromPoint(x, y);
    if (!at || at.startContainer.nodeType !== Node.TEXT_NODE || !node.contains(at.startContainer)) return 'arrow';
    const text = document.createRange();
    text.selectNodeContents(at.startContainer);
    const inside = (box) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
    return [...text.getClientRects()].some(inside) ? 'beam' : 'arrow';
  };
  const rect = (node) => {
    const box = node.getBoundingClientRect();
    return [Math.max(box.left, 0), Math.max(box.top, 0), Math.min(box.right, innerWidth), Math.min(box.bottom, innerHeight)];
  };
  const scroller = (x, y) => {
    for (let node = document.elementFromPoint(x, y); node; node = node.parentElement) {
      const overflow = getComputedStyle(node).overflowY;
      if ((overflow === 'auto' || overflow === 'scroll') && node.scrollHeight > node.clientHeight) return node;
    }
    return document.scrollingElement;
  };

  window.recorder = {
    // Moves time to `time` in ms and says what the frame depends on.
    frame(time, caretShown, x, y) {
      sessionStorage.recorderNow = now = time;
      runTimers();
      const running = moveAnimations();
      mutations += observer.takeRecords().length;
      caret.cssRules[1].style.setProperty('caret-color', caretShown ? 'auto' : 'transparent', 'important');
      const focus = document.activeElement, hovered = [...document.querySelectorAll(':hover')].pop();
      const state = [number(hovered), number(document.querySelector(':active')), number(focus), fired, mutations];
      const busy = running.filter((animation) => !endless(animation)).length
        || [...timers.values()].some((timer) => timer.every === null);
      return {
        state: [...state, isField(focus) && caretShown, window.scrollY].join(' '), moving: running.length > 0, busy: Boolean(busy),
        shape: shape(x, y), wanted,
      };
    },
    // What moves on its own: [[left, top, right, bottom], ...].
    moving() {
      const endlessly = document.getAnimations().filter(endless).map((animation) => animation.effect.target);
      return [...document.querySelectorAll('[data-moving]'), ...endlessly].map(rect);
    },
    // The box of an element, and whether a click into its middle would reach it.
    find(selector) {
      const node = document.querySelector(selector);
      if (!node) return null;
      const box = rect(node), hit = document.elementFromPoint((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
      return {box, reached: Boolean(hit) && node.contains(hit)};
    },
    // The field that takes the keys, its text, and whether all of it is shown.
    field() {
      const node = document.activeElement;
      if (!isField(node) || node.type === 'password') return null;
      const shown = node.scrollWidth <= node.clientWidth + 1 && node.scrollHeight <= node.clientHeight + 2;
      return {box: rect(node), text: 'value' in node ? node.value : node.innerText, shown};
    },
    scrolled(x, y, distance) {
      const node = scroller(x, y), before = node.scrollTop;
      node.scrollTop = before + distance;
      const whole = node === document.scrollingElement;
      return {moved: node.scrollTop - before, box: whole ? [0, 0, innerWidth, innerHeight] : rect(node)};
    },
  };
})();
