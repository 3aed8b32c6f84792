/** Images of the map, out of the node's PMTiles file. */

import { FetchSource, PMTiles } from "pmtiles";
import { authority } from "./login";

/** Images that are kept; a large screen shows about forty. */
const KEPT = 160;
/** Time after which an image that could not be fetched is fetched again. */
const AGAIN_MS = 5000;
/** The kinds that are images: PNG, JPEG, WebP, AVIF (PMTiles version 3). */
const IMAGES = new Set([2, 3, 4, 5]);

export class Tiles {
  private range?: [number, number];
  private readonly images = new Map<string, ImageBitmap | null>();
  private readonly file: PMTiles;

  /** `loaded` is called when there is more to draw, `failed` with the reason why there are no images. */
  constructor(
    private readonly loaded: () => void,
    private readonly failed: (problem: string) => void,
  ) {
    this.file = new PMTiles(new FetchSource(`${location.origin}/map.pmtiles`, new Headers(authority())));
    this.file.getHeader().then(
      (header) => {
        if (IMAGES.has(header.tileType)) this.range = [header.minZoom, header.maxZoom];
        else this.failed("the map's file has no images");
        this.loaded();
      },
      (error: unknown) => this.failed(String(error)),
    );
  }

  /** Return the zoom level whose images are shown instead of a wanted one; none while there are no images. */
  level(wanted: number): number | undefined {
    return this.range && Math.max(this.range[0], Math.min(this.range[1], wanted));
  }

  /** Return an image, if it is there already; else it is fetched. */
  image(z: number, x: number, y: number): ImageBitmap | undefined {
    const key = `${z}/${x}/${y}`;
    const found = this.images.get(key);
    if (found === undefined) void this.fetch(key, z, x, y);
    else if (found) this.keep(key, found);
    return found ?? undefined;
  }

  close(): void {
    for (const image of this.images.values()) image?.close();
    this.images.clear();
  }

  private async fetch(key: string, z: number, x: number, y: number): Promise<void> {
    this.keep(key, null);
    try {
      const tile = await this.file.getZxy(z, x, y);
      if (tile) this.keep(key, await createImageBitmap(new Blob([tile.data])));
      this.loaded();
    } catch {
      // It is a part of the grid until it is fetched again, when the map is drawn after a while.
      setTimeout(() => this.images.get(key) === null && this.images.delete(key), AGAIN_MS);
    }
  }

  private keep(key: string, image: ImageBitmap | null): void {
    this.images.delete(key);
    this.images.set(key, image);
    for (const [oldest, one] of this.images) {
      if (this.images.size <= KEPT) break;
      one?.close();
      this.images.delete(oldest);
    }
  }
}
