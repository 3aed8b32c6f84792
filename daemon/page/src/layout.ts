/** Where the nodes of the mesh are drawn: forces move them from rings by hops to a drawing without crossings. */

import { type Simulation, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";
import type { EdgeKind, Graph, NodeKind } from "./document";

export interface Place {
  key: string;
  kind: NodeKind;
  x: number;
  y: number;
  vx?: number;
  vy?: number;
}

export interface Line {
  source: Place;
  target: Place;
  kind: EdgeKind;
}

const RING = 60;
/** Turns each node by this angle against the one before (the golden angle), so that none covers another. */
const TURN = 2.399963;

export class Layout {
  places = new Map<string, Place>();
  lines: Line[] = [];
  private readonly simulation: Simulation<Place, undefined>;
  private readonly links = forceLink<Place, Line>([]).distance(40).iterations(1);

  constructor(moved: () => void) {
    this.simulation = forceSimulation<Place>([])
      .force("link", this.links)
      .force("charge", forceManyBody<Place>().strength(-90).distanceMax(400).theta(1.1))
      .force("x", forceX<Place>(0).strength(0.03))
      .force("y", forceY<Place>(0).strength(0.05))
      .alphaDecay(0.05)
      .on("tick", moved)
      .stop();
  }

  /** Take another graph. Nodes that were there stay where they are; the drawing moves only when nodes or edges do. */
  take(graph: Graph): void {
    const before = this.lines.map(({ source, target }) => `${source.key} ${target.key}`).join("|");
    const count = this.places.size;
    const kept = Object.entries(graph.nodes).map(([key, kind], index) => this.placed(graph, key, kind, index));
    this.places = new Map(kept.map((place) => [place.key, place]));
    this.lines = Object.entries(graph.edges).flatMap(([pair, edge]) => {
      const [source, target] = pair.split(" ").map((key) => this.places.get(key));
      return source && target ? [{ source, target, kind: edge.kind }] : [];
    });
    this.simulation.nodes(kept);
    this.links.links(this.lines);
    const after = this.lines.map(({ source, target }) => `${source.key} ${target.key}`).join("|");
    if (before !== after || count !== kept.length) this.settle(count > 0);
  }

  stop(): void {
    this.simulation.stop();
  }

  private placed(graph: Graph, key: string, kind: NodeKind, index: number): Place {
    const old = this.places.get(key);
    if (old) return Object.assign(old, { kind });
    const hops = kind === "self" ? 0 : (graph.routes[key]?.length ?? 4);
    const radius = RING * hops + (kind === "self" ? 0 : index / 20);
    return { key, kind, x: radius * Math.cos(index * TURN), y: radius * Math.sin(index * TURN) };
  }

  /** Move the nodes, or for people who want no motion compute where they end. */
  private settle(isKnown: boolean): void {
    this.simulation.alpha(isKnown ? 0.4 : 1);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.simulation.tick(60);
    else this.simulation.restart();
  }
}
