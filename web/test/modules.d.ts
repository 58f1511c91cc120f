declare module "pngjs" {
  export class PNG {
    constructor(options: { width: number; height: number });
    readonly width: number;
    readonly height: number;
    readonly data: Buffer;
    static readonly sync: { read(bytes: Buffer): PNG; write(image: PNG, options?: { deflateLevel?: number; colorType?: number; filterType?: number; deflateStrategy?: number }): Buffer };
  }
}
