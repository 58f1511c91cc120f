graph [
  node [
    id 0
    label "Hannover"
    Longitude 9.8
    Latitude 52.39
  ]
  node [
    id 1
    label "Frankfurt"
    Longitude 8.66
    Latitude 50.14
  ]
  node [
    id 2
    label "Hamburg"
    Longitude 10.08
    Latitude 53.55
  ]
  node [
    id 3
    label "Norden"
    Longitude 7.21
    Latitude 53.6
  ]
  node [
    id 4
    label "Bremen"
    Longitude 8.8
    Latitude 53.08
  ]
  node [
    id 5
    label "Berlin"
    Longitude 13.48
    Latitude 52.52
  ]
  node [
    id 6
    label "Muenchen"
    Longitude 11.55
    Latitude 48.15
  ]
  node [
    id 7
    label "Ulm"
    Longitude 9.99
    Latitude 48.4
  ]
  node [
    id 8
    label "Nuernberg"
    Longitude 11.08
    Latitude 49.45
  ]
  node [
    id 9
    label "Stuttgart"
    Longitude 9.12
    Latitude 48.73
  ]
  node [
    id 10
    label "Karlsruhe"
    Longitude 8.41
    Latitude 49.01
  ]
  node [
    id 11
    label "Mannheim"
    Longitude 8.49
    Latitude 49.49
  ]
  node [
    id 12
    label "Essen"
    Longitude 7.0
    Latitude 51.44
  ]
  node [
    id 13
    label "Dortmund"
    Longitude 7.48
    Latitude 51.51
  ]
  node [
    id 14
    label "Duesseldorf"
    Longitude 6.78
    Latitude 51.22
  ]
  node [
    id 15
    label "Koeln"
    Longitude 7.01
    Latitude 50.92
  ]
  node [
    id 16
    label "Leipzig"
    Longitude 12.38
    Latitude 51.34
  ]
  edge [
    source 0
    target 5
  ]
  edge [
    source 0
    target 4
  ]
  edge [
    source 0
    target 13
  ]
  edge [
    source 0
    target 1
  ]
  edge [
    source 0
    target 2
  ]
  edge [
    source 0
    target 16
  ]
  edge [
    source 1
    target 15
  ]
  edge [
    source 1
    target 16
  ]
  edge [
    source 1
    target 11
  ]
  edge [
    source 1
    target 8
  ]
  edge [
    source 2
    target 5
  ]
  edge [
    source 2
    target 4
  ]
  edge [
    source 3
    target 4
  ]
  edge [
    source 3
    target 13
  ]
  edge [
    source 5
    target 16
  ]
  edge [
    source 6
    target 8
  ]
  edge [
    source 6
    target 7
  ]
  edge [
    source 7
    target 9
  ]
  edge [
    source 8
    target 16
  ]
  edge [
    source 8
    target 9
  ]
  edge [
    source 9
    target 10
  ]
  edge [
    source 10
    target 11
  ]
  edge [
    source 12
    target 13
  ]
  edge [
    source 12
    target 14
  ]
  edge [
    source 13
    target 15
  ]
  edge [
    source 14
    target 15
  ]
]
