declare module "made:diagrams" {
  const diagrams: Record<string, { title: string; diagram: string }[]>;
  export default diagrams;
}
declare module "made:gallery" {
  const gallery: { file: string; title: string; group: string; text: string[]; protocols?: string[]; start?: number; scenario: string }[];
  export default gallery;
}
declare module "made:worker" {
  const source: string;
  export default source;
}
