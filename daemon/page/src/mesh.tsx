/** The mesh as a live graph, and the route to a chosen node. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { EdgeKind, Graph } from "./document";
import { draw } from "./draw";
import { Layout, type Place } from "./layout";
import { Section } from "./parts";
import { Zoomed, extent } from "./zoomed";

interface Props {
  graph: Graph;
  own: string;
  chosen: string;
  choose: (name: string) => void;
}

export function Mesh({ graph, own, chosen, choose }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [drawing, setDrawing] = useState<Drawing>();
  const way = chosen ? graph.routes[chosen] : undefined;
  const route = way ? [own, ...way] : [];
  useEffect(() => {
    if (!canvas.current) return undefined;
    const made = new Drawing(canvas.current, choose);
    setDrawing(made);
    return () => made.close();
  }, []);
  useEffect(() => drawing?.show(graph, route), [drawing, graph, chosen]);
  const others = Object.keys(graph.nodes).filter((key) => key !== own);
  return (
    <Section id="mesh" title="The mesh">
      <div class="controls">
        <label>
          Route to
          <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
            <option value="">nobody</option>
            {others.map((key) => (
              <option key={key} value={key}>
                {key}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => drawing?.scale(1.4)} aria-label="Larger">
          +
        </button>
        <button type="button" onClick={() => drawing?.scale(1 / 1.4)} aria-label="Smaller">
          −
        </button>
        <button type="button" onClick={() => drawing?.fit()}>
          Show all
        </button>
      </div>
      <canvas ref={canvas} role="img" aria-label={summary(graph)} />
      <ul class="legend">
        <li class="protected">protected</li>
        <li class="plain">not protected</li>
        <li class="stranger">stranger</li>
        {claimed(graph) > 0 && <li class="claimed">not signed by both ends</li>}
      </ul>
      <p id="route" aria-live="polite">
        {chosen && (way ? `Route: ${route.join(" → ")}` : `There is no route to ${chosen}.`)}
      </p>
    </Section>
  );
}

function summary(graph: Graph): string {
  const count = (kind: EdgeKind) => Object.values(graph.edges).filter((edge) => edge.kind === kind).length;
  const nodes = Object.keys(graph.nodes).length;
  return (
    `${nodes} nodes; ${count("protected")} edges protected, ${count("plain")} not protected, ` +
    `${count("stranger")} of strangers` +
    (claimed(graph) ? `; ${claimed(graph)} not signed by both ends` : "")
  );
}

function claimed(graph: Graph): number {
  return Object.values(graph.edges).filter((edge) => edge.confirmed === false).length;
}

/** The canvas, its layout and what the reader chooses in it. */
class Drawing extends Zoomed {
  private route: string[] = [];
  private readonly layout = new Layout(() => this.redraw());

  constructor(
    canvas: HTMLCanvasElement,
    private readonly choose: (name: string) => void,
  ) {
    super(canvas, [0.05, 8]);
    canvas.addEventListener("click", this.clicked);
  }

  show(graph: Graph, route: string[]): void {
    this.layout.take(graph);
    this.route = route;
    this.redraw();
  }

  override close(): void {
    this.layout.stop();
    super.close();
  }

  protected override paint(): void {
    draw(this.canvas, this.layout, this.view, this.route);
  }

  protected override fitNow(): void {
    const places = [...this.layout.places.values()];
    if (!places.length) return;
    const [left, right] = extent(places.map((place) => place.x));
    const [top, bottom] = extent(places.map((place) => place.y));
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const k = Math.min(3, (width - 60) / Math.max(right - left, 1), (height - 60) / Math.max(bottom - top, 1));
    this.look((-k * (left + right)) / 2, (-k * (top + bottom)) / 2, k);
  }

  private clicked = (event: MouseEvent): void => {
    const box = this.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - box.width / 2 - this.view.x) / this.view.k;
    const y = (event.clientY - box.top - box.height / 2 - this.view.y) / this.view.k;
    const found = nearest(this.layout.places.values(), x, y, 16 / this.view.k);
    if (found) this.choose(found.kind === "self" ? "" : found.key);
  };
}

function nearest(places: Iterable<Place>, x: number, y: number, within: number): Place | undefined {
  let found: Place | undefined;
  for (const place of places) {
    const distance = Math.hypot(place.x - x, place.y - y);
    if (distance < within) [found, within] = [place, distance];
  }
  return found;
}
