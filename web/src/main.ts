/** Page: everything begins here. */
import { App } from "./ui/app.ts";

const app = new App(document.getElementById("app")!);
(window as unknown as { carillon: App }).carillon = app;
void app.start();
