/** Figures and times for people. */

export function rate(bitsPerSecond: number): string {
  return `${scaled(bitsPerSecond)}bit/s`;
}

export function bytes(count: number): string {
  return `${scaled(count)}B`;
}

function scaled(value: number): string {
  const units = ["", "k", "M", "G", "T"];
  let index = 0;
  while (value >= 1000 && index < units.length - 1) {
    value /= 1000;
    index += 1;
  }
  return `${index ? value.toFixed(1) : Math.round(value)} ${units[index]}`;
}

export function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString();
}

/** Say when something began: the time, and the date where it was not today. */
export function moment(seconds: number): string {
  const when = new Date(seconds * 1000);
  const today = when.toDateString() === new Date().toDateString();
  return today ? when.toLocaleTimeString() : when.toLocaleString();
}
