/**
 * Reads the QR code in a photo. It is loaded when a photo is there, because most who look at the page never need it.
 *
 * What is in the file decides nothing here: its size is limited before the browser decodes it, and its text is returned.
 */

import decodeQR from "qr/decode.js";

const MOST_BYTES = 32 * 1024 * 1024;
/** More than phones take by default. A browser needs four bytes for each pixel to decode a photo. */
const MOST_PIXELS = 64_000_000;
/** Longest sides in pixels at which the code is looked for: one that fills the photo, then one that is small in it. */
const SIDES = [1000, 2400];
/** Milliseconds for one look, in which the page stands still. */
const LOOK = 700;

/** A photo that cannot be used; the text says why. */
export class PhotoError extends Error {}

interface Size {
  width: number;
  height: number;
}

/** Return the text of the QR code in a photo. Raises PhotoError. */
export async function textIn(file: Blob): Promise<string> {
  await refuseLarge(file);
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new PhotoError("the photo is damaged, or too large for this browser");
  });
  try {
    for (const side of SIDES) {
      const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
      const text = decoded(pixels(bitmap, scale));
      if (text !== undefined) return text;
      if (scale === 1) break;
    }
  } finally {
    bitmap.close();
  }
  throw new PhotoError("no QR code is found in this photo: take it from nearer, straight, with the whole code and its border");
}

/** Refuse a file by the size that it claims, which a browser believes, too, before anything is decoded. */
async function refuseLarge(file: Blob): Promise<void> {
  const megabytes = (count: number) => Math.ceil(count / 1024 / 1024);
  if (file.size > MOST_BYTES) throw new PhotoError(`the photo has ${megabytes(file.size)} MB; allowed: ${megabytes(MOST_BYTES)}`);
  const view = new DataView(await file.arrayBuffer());
  const size = pngSize(view) ?? jpegSize(view);
  if (!size) throw new PhotoError("this is no photo that the page can read; allowed: JPEG and PNG");
  const { width, height } = size;
  if (!width || !height || width * height > MOST_PIXELS) {
    throw new PhotoError(`the photo has ${width} x ${height} pixels; allowed: 1 to ${MOST_PIXELS / 1e6} million in all`);
  }
}

/** PNG (third edition), sections 5.2 and 11.2.1: the header is the first chunk. */
function pngSize(view: DataView): Size | undefined {
  if (view.byteLength < 24 || view.getUint32(0) !== 0x89504e47 || view.getUint32(4) !== 0x0d0a1a0a) return undefined;
  return { width: view.getUint32(16), height: view.getUint32(20) };
}

/** ITU-T T.81, annex B: segments with their lengths, up to the frame header, whose markers are SOF0 to SOF15. */
function jpegSize(view: DataView): Size | undefined {
  if (view.byteLength < 4 || view.getUint16(0) !== 0xffd8) return undefined;
  let at = 2;
  while (at + 9 <= view.byteLength && view.getUint8(at) === 0xff) {
    const marker = view.getUint8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { height: view.getUint16(at + 5), width: view.getUint16(at + 7) };
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return undefined;
}

function pixels(bitmap: ImageBitmap, scale: number): ImageData {
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(bitmap.width * scale);
  canvas.height = Math.ceil(bitmap.height * scale);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new PhotoError("this browser cannot read photos");
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** Return the text of a code, also of one whose colours are exchanged, as a terminal with dark text draws it. */
function decoded(image: ImageData): string | undefined {
  try {
    return decodeQR(image, { effort: 4, timeLimit: LOOK });
  } catch {
    return undefined;
  }
}
