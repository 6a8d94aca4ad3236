// Uses the pages of examples/docket as a person does, with the keyboard only, and checks how they look.
//
//     node open_docket.mjs ADDRESS FILE [DIRECTORY]
//
// ADDRESS is that of the server, whose password is `secret'. FILE is uploaded. Prints one object of
// JSON: `faults` has a line for each rule that a page breaks, and `seen` what a reader saw at the
// end of each task. DIRECTORY gets pictures.

import { inEachView, texts, withBrowser } from "./browser.mjs";

const [address, file, pictures] = process.argv.slice(2);

// This function runs in the page. All fields and buttons have names for screen readers.
function named() {
    const fields = document.querySelectorAll("input:not([type=hidden]), select, textarea");
    return [...fields]
        .filter((field) => !field.closest("label") && !field.ariaLabel)
        .map((field) => `the field ${field.name} has no label`)
        .concat(document.querySelectorAll("h1").length === 1 ? [] : ["not one heading"]);
}

async function used(page) {
    const { tell, run, visit, loading } = page;
    const faults = [];
    const seen = {};
    const text = () => run(() => document.body.innerText);
    const look = async (title) => {
        const check = async () => [...(await run(texts)), ...(await run(named))];
        const found = await inEachView(page, check, pictures, `${title}-`);
        faults.push(...found.map((fault) => `${title}: ${fault}`));
    };
    const key = async (name, code, sign) => {
        const event = { key: name, code: name, windowsVirtualKeyCode: code, text: sign };
        await tell("Input.dispatchKeyEvent", { type: "keyDown", ...event });
        await tell("Input.dispatchKeyEvent", { type: "keyUp", ...event, text: undefined });
    };
    const enter = () => key("Enter", 13, "\r");
    const type = (words) => tell("Input.insertText", { text: words });
    // Moves the focus on until it reaches the element, as a person without a mouse does.
    const reach = async (label) => {
        const focused = () => {
            const { activeElement } = document;
            const { width, height } = activeElement.getBoundingClientRect();
            const ring = getComputedStyle(activeElement).outlineStyle;
            return {
                name: activeElement.ariaLabel ?? (activeElement.labels?.[0] ?? activeElement).innerText,
                seen: width + height > 0 && ring !== "none",
            };
        };
        for (let presses = 0; presses < 60; presses++) {
            await key("Tab", 9);
            const { name, seen } = await run(focused);
            if (name?.trim().startsWith(label)) {
                if (!seen) faults.push(`no ring around ${label}`);
                return;
            }
        }
        throw new Error(`the keyboard does not reach ${label}`);
    };

    const login = Buffer.from("ann:secret").toString("base64");
    await tell("Network.setExtraHTTPHeaders", { headers: { authorization: `Basic ${login}` } });

    await visit(address);
    await look("empty");
    await reach("New case");
    await loading(enter);
    await look("new");
    await reach("Title");
    await type("A leak in the roof of the old house at the harbor");
    for (const [number, name, role] of [
        [1, "Bob Miller, junior", "tenant"],
        [2, "Carol <Smith> & Sons", "owner"],
    ]) {
        await reach(`Name of party ${number}`);
        await type(name);
        await reach(`Role of party ${number}`);
        await type(role);
    }
    await reach("Open the case");
    await loading(enter);
    seen.opened = await text();
    const place = await run(() => location.href);

    await reach("Add a text");
    await enter();
    await reach("Text");
    await type("The rain comes in.");
    await reach("Add the text");
    await loading(enter);
    seen.note = await text();

    // The browser's own dialog cannot be driven. The button can.
    await run(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
    const { root } = await tell("DOM.getDocument");
    const { nodeId } = await tell("DOM.querySelector", {
        nodeId: root.nodeId,
        selector: "input[type=file]",
    });
    await tell("DOM.setFileInputFiles", { nodeId, files: [file] });
    await reach("Add the file");
    await loading(enter);
    seen.file = await text();
    await look("case");

    // A person who changes only the title leaves the parties as they are.
    await reach("Title");
    await type("A leak in the old roof");
    await reach("Save");
    await loading(enter);
    seen.saved = await run(() => [...document.querySelectorAll("fieldset input")].map((each) => each.value).join("|"));

    // Someone else changes the case meanwhile.
    await run(async (url) => {
        await fetch(url.replace("/cases/", "/api/cases/"), {
            method: "PATCH",
            body: JSON.stringify({ title: "Changed by someone else", version: 4 }),
        });
        document.title = "changed";
    }, place);
    while ((await run(() => document.title)) !== "changed");
    await reach("Save");
    await loading(enter);
    seen.conflict = await text();
    await look("conflict");

    await reach("Close the case");
    await loading(enter);
    seen.closed = await text();
    await reach("Cases");
    await loading(enter);
    await reach("Title or party");
    await type("miller");
    await loading(enter);
    seen.found = await text();
    await look("list");
    await visit(`${address}/picture`);
    await look("picture");
    return { faults, seen };
}

process.stdout.write(JSON.stringify(await withBrowser(used)));
