/** Draws the mesh on a canvas. Kinds of edges differ by their dashes too, for people who do not see the colours. */

import type { EdgeKind, Graph, NodeKind } from "./document";
import type { Layout, Place } from "./layout";

export interface View {
  x: number;
  y: number;
  k: number;
}

interface Style {
  kind: EdgeKind;
  isClaimed: boolean;
}

const DASHES: Record<EdgeKind, number[]> = { protected: [], plain: [6, 4], stranger: [1.5, 4] };
/** An edge that not both ends have signed, where signatures are looked at. */
const CLAIMED = [9, 3, 2, 3];
/** How edges are drawn, the most important last. */
export const STYLES: Style[] = (["stranger", "plain", "protected"] as const).flatMap((kind) =>
  [true, false].map((isClaimed) => ({ kind, isClaimed })),
);
const RADII: Record<NodeKind, number> = { self: 8, peer: 6, stranger: 4 };
/** Nodes up to which each has its name written beside it at any size. */
const FEW = 60;
/** Nodes from which lines are thin, because they would cover everything. */
const MANY = 200;

export function draw(canvas: HTMLCanvasElement, layout: Layout, view: View, route: string[]): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.translate(view.x + width / 2, view.y + height / 2);
  context.scale(view.k, view.k);
  const colour = colours(canvas);
  for (const style of STYLES) drawLines(context, layout, style, colour(style.kind), view.k);
  drawRoute(context, layout, route, colour("route"), view.k);
  for (const place of layout.places.values()) drawNode(context, place, colour(place.kind === "stranger" ? "stranger" : "node"));
  if (layout.places.size <= FEW || view.k > 1.5) drawNames(context, layout, colour("text"), view.k);
}

export function has(style: Style, edge: Graph["edges"][string]): boolean {
  return edge.kind === style.kind && (edge.confirmed === false) === style.isClaimed;
}

export function dashes({ kind, isClaimed }: Style): number[] {
  return isClaimed ? CLAIMED : DASHES[kind];
}

function drawLines(context: CanvasRenderingContext2D, layout: Layout, style: Style, colour: string, scale: number): void {
  context.beginPath();
  for (const line of layout.lines) {
    if (!has(style, line)) continue;
    context.moveTo(line.source.x, line.source.y);
    context.lineTo(line.target.x, line.target.y);
  }
  stroke(context, colour, (layout.places.size > MANY ? 0.5 : 1.6) / scale, dashes(style).map((dash) => dash / scale));
}

function drawRoute(context: CanvasRenderingContext2D, layout: Layout, route: string[], colour: string, scale: number): void {
  context.beginPath();
  const places = route.flatMap((key) => layout.places.get(key) ?? []);
  places.forEach((place, index) => (index ? context.lineTo(place.x, place.y) : context.moveTo(place.x, place.y)));
  stroke(context, colour, 4 / scale, []);
}

function stroke(context: CanvasRenderingContext2D, colour: string, width: number, dashes: number[]): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dashes);
  context.stroke();
}

function drawNode(context: CanvasRenderingContext2D, place: Place, colour: string): void {
  context.beginPath();
  context.arc(place.x, place.y, RADII[place.kind], 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
}

function drawNames(context: CanvasRenderingContext2D, layout: Layout, colour: string, scale: number): void {
  context.fillStyle = colour;
  context.font = `${13 / scale}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const place of layout.places.values()) {
    const name = place.kind === "stranger" ? `…${place.key.slice(-4)}` : place.key;
    context.fillText(name, place.x, place.y + RADII[place.kind] + 3 / scale);
  }
}

/** Return the colours of the style sheet, which knows whether the screen is light or dark. */
export function colours(element: Element): (name: string) => string {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`);
}
