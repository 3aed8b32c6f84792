import { select } from "d3-selection";
import { type ZoomBehavior, zoom, zoomIdentity } from "d3-zoom";

/** A canvas that the reader moves and scales, and that follows its content until then. */
export abstract class Zoomed {
  protected view = { x: 0, y: 0, k: 1 };
  private isDue = false;
  private isFitting = true;
  private readonly zooming: ZoomBehavior<HTMLCanvasElement, unknown>;
  private readonly resized: ResizeObserver;
  private readonly scheme = matchMedia("(prefers-color-scheme: dark)");

  constructor(
    protected readonly canvas: HTMLCanvasElement,
    scales: [number, number],
  ) {
    this.zooming = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent(scales)
      .filter(isMeant)
      .on("zoom", ({ transform, sourceEvent }) => {
        this.view = transform;
        if (sourceEvent) this.isFitting = false;
        this.redraw();
      });
    select(canvas).call(this.zooming).on("dblclick.zoom", null);
    this.resized = new ResizeObserver(() => this.redraw());
    this.resized.observe(canvas);
    this.scheme.addEventListener("change", this.redraw);
  }

  scale(factor: number): void {
    this.isFitting = false;
    this.zooming.scaleBy(select(this.canvas), factor);
  }

  fit(): void {
    this.isFitting = true;
    this.redraw();
  }

  close(): void {
    this.resized.disconnect();
    this.scheme.removeEventListener("change", this.redraw);
  }

  /** Draw with the next frame, once for all that changes until then. */
  protected redraw = (): void => {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      if (this.isFitting) this.fitNow();
      this.paint();
    });
  };

  /** Set the view. The reader's first movement starts from here. */
  protected look(x: number, y: number, k: number): void {
    this.view = { x, y, k };
    Object.assign(this.canvas, { __zoom: zoomIdentity.translate(x, y).scale(k) });
  }

  /** Choose the view that shows everything. */
  protected abstract fitNow(): void;

  protected abstract paint(): void;
}

export function extent(values: number[]): [number, number] {
  return [Math.min(...values), Math.max(...values)];
}

/** Return whether a movement is for the drawing: a wheel or one finger alone scrolls the page. */
function isMeant(event: Event): boolean {
  if (event instanceof WheelEvent) return event.ctrlKey;
  return !(window.TouchEvent && event instanceof TouchEvent) || event.touches.length > 1;
}
