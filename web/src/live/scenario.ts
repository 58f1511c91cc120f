/** Scenario in TOML: the little that the page reads and changes in its text. The simulator reads all of it. */

/** Value of a key in a section, without quotes, or `undefined`. */
export function valueOf(text: string, section: string, key: string): string | undefined {
  const lines = sectionOf(text, section);
  for (const line of lines) {
    const match = /^\s*([\w-]+)\s*=\s*(?:"([^"]*)"|([^#]*))/.exec(line);
    if (match && match[1] === key) return (match[2] ?? match[3] ?? "").trim();
  }
  return undefined;
}

/** Text without the settings of one protocol, so that another one can be set. */
export function withoutProtocolSettings(text: string): string {
  let inside = false;
  return text.split("\n").filter((line) => {
    const section = sectionName(line);
    if (section !== undefined) inside = section === "protocol";
    return !inside || section !== undefined || !/^\s*[\w-]+\s*=/.test(line) || /^\s*profile\s*=/.test(line);
  }).join("\n");
}

function sectionName(line: string): string | undefined {
  return /^\s*\[{1,2}\s*([\w.-]+)\s*\]{1,2}/.exec(line)?.[1];
}

function sectionOf(text: string, section: string): string[] {
  const lines: string[] = [];
  let inside = section === "";
  for (const line of text.split("\n")) {
    const name = sectionName(line);
    if (name !== undefined) inside = name === section;
    else if (inside) lines.push(line);
  }
  return lines;
}
