// The width of an element, for drawings that fill it.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Returns a reference for an element, and the width of its content in pixels: zero before the element is there. */
export function useWidth() {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  // Before the first paint, so that nothing shifts.
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => setWidth(Math.floor(element.clientWidth));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  return { ref, width };
}
