/** The map: nodes where they are, for those who may see it. */

import { select } from "d3-selection";
import { type ZoomBehavior, zoom, zoomIdentity } from "d3-zoom";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Graph } from "./document";
import { UNIT, drawMap } from "./map-draw";
import { Section, Table } from "./parts";
import { type Place, type Places, followPlaces, projected } from "./places";
import { Tiles } from "./tiles";

/** Metres that are shown at least when all is shown. */
const CLOSEST = 3e-6;

export function WorldMap({ graph, own }: { graph: Graph; own: string }) {
  const [places, setPlaces] = useState<Places>();
  useEffect(() => {
    const left = new AbortController();
    void followPlaces(setPlaces, left.signal);
    return () => left.abort();
  }, []);
  if (!places?.shown || !places.positions.length) return null;
  return <Shown places={places} graph={graph} own={own} />;
}

function Shown({ places, graph, own }: { places: Places; graph: Graph; own: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [drawing, setDrawing] = useState<Drawing>();
  const [problem, setProblem] = useState("");
  const { positions, map } = places;
  useEffect(() => {
    if (!canvas.current) return undefined;
    setProblem("");
    const made = new Drawing(canvas.current, map, setProblem);
    setDrawing(made);
    return () => made.close();
  }, [map]);
  useEffect(() => drawing?.show(positions, graph, own), [drawing, positions, graph, own]);
  const away = positions.filter((place) => !place.reached).length;
  return (
    <Section id="map" title="The map">
      <div class="controls">
        <button type="button" onClick={() => drawing?.scale(1.6)} aria-label="Larger map">
          +
        </button>
        <button type="button" onClick={() => drawing?.scale(1 / 1.6)} aria-label="Smaller map">
          −
        </button>
        <button type="button" onClick={() => drawing?.fit()}>
          Show all on the map
        </button>
      </div>
      {problem && <p class="bad">The map has no images: {problem}</p>}
      <canvas ref={canvas} role="img" aria-label={`${positions.length} nodes on the map, ${away} of them out of reach; the table has their places`} />
      <Table caption="Positions" columns={["Node", "Latitude", "Longitude", "Altitude", "Within", "Seen"]}>
        {positions.map((place) => (
          <tr key={place.node}>
            <th scope="row">{place.node}</th>
            <td>{place.latitude.toFixed(5)}</td>
            <td>{place.longitude.toFixed(5)}</td>
            <td>{metres(place.altitude)}</td>
            <td>{metres(place.accuracy)}</td>
            <td class={place.reached ? "" : "bad"}>{seen(place)}</td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}

function metres(value: number | null): string {
  return value === null ? "–" : `${Math.round(value)} m`;
}

function seen({ age, fixed, reached }: Place): string {
  if (fixed && reached) return "fixed";
  const ago = age < 60 ? `${Math.round(age)} s ago` : age < 3600 ? `${Math.round(age / 60)} min ago` : `${(age / 3600).toFixed(1)} h ago`;
  return reached ? ago : `${ago}, out of reach`;
}

/** The canvas, and what the reader does with it. */
class Drawing {
  private view = { x: 0, y: 0, k: 1 };
  private centre: [number, number] = [0.5, 0.5];
  private positions: Place[] = [];
  private graph: Graph = { nodes: {}, edges: {}, routes: {} };
  private own = "";
  private isDue = false;
  /** Whether the map follows the nodes until the reader takes it over. */
  private isFitting = true;
  private readonly tiles: Tiles | undefined;
  private readonly zooming: ZoomBehavior<HTMLCanvasElement, unknown>;
  private readonly resized: ResizeObserver;
  private readonly scheme = matchMedia("(prefers-color-scheme: dark)");

  constructor(
    private readonly canvas: HTMLCanvasElement,
    hasMap: boolean,
    failed: (problem: string) => void,
  ) {
    this.tiles = hasMap ? new Tiles(() => this.redraw(), failed) : undefined;
    this.zooming = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1 / UNIT, 2 ** 10])
      .filter((event: Event) => !(event instanceof WheelEvent) || event.ctrlKey)
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

  show(positions: Place[], graph: Graph, own: string): void {
    [this.positions, this.graph, this.own] = [positions, graph, own];
    this.redraw();
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
    this.tiles?.close();
    this.resized.disconnect();
    this.scheme.removeEventListener("change", this.redraw);
  }

  private redraw = (): void => {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      if (this.isFitting) this.fitNow();
      drawMap(this.canvas, { ...this.view, centre: this.centre }, this);
    });
  };

  private fitNow(): void {
    const points = this.positions.map((place) => projected(place.latitude, place.longitude));
    if (!points.length) return;
    const [left, right] = extent(points.map(([x]) => x));
    const [top, bottom] = extent(points.map(([, y]) => y));
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const across = Math.max(right - left, CLOSEST) * UNIT;
    const down = Math.max(bottom - top, CLOSEST) * UNIT;
    const k = Math.min(Math.max((width - 100) / across, 1 / UNIT), Math.max((height - 100) / down, 1 / UNIT), 2 ** 10);
    this.centre = [(left + right) / 2, (top + bottom) / 2];
    this.view = { x: 0, y: 0, k };
    // The reader's first movement starts from here.
    Object.assign(this.canvas, { __zoom: zoomIdentity.scale(k) });
  }

  /** What is drawn. */
  get content() {
    return { positions: this.positions, graph: this.graph, own: this.own, tiles: this.tiles };
  }
}

function extent(values: number[]): [number, number] {
  return [Math.min(...values), Math.max(...values)];
}
