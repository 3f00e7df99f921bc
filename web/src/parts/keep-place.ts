import { flushSync } from "react-dom";

/** Makes a change above an element that stays where it is on the screen. */
export const keepPlace = (element: Element | null, scroller: Element | null, change: () => void): void => {
  const before = element?.getBoundingClientRect().top ?? 0;
  flushSync(change);
  if (element === null || scroller === null) return;
  // Before it is painted, and after a virtual list has measured and moved its rows, of which one holds the element.
  const measured = new ResizeObserver(() => {
    measured.disconnect();
    scroller.scrollTop += element.getBoundingClientRect().top - before;
  });
  measured.observe(element);
};
